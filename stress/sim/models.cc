#include "stress/sim/models.h"

#include <cstring>

namespace tinyloop::sim {

namespace {

testing::ModelShape tiny_shape() {
  testing::ModelShape shape;
  shape.d_model = kWidth;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = shape.ffn = 2;
  shape.vocab = kVocab;
  shape.context_length = 40;  // requests go past it
  shape.default_iterations = 3;
  shape.max_iterations = 6;
  shape.matrix_type = shape.embedding_type = kernels::WeightType::f32;
  shape.tokenizer = false;
  return shape;
}

std::vector<testing::ModelShape> shapes() {
  std::vector<testing::ModelShape> all(4, tiny_shape());
  all[1].shared = 1;
  all[1].injection = "linear";
  all[1].initial_state = "zeros";
  all[1].loop_norm = true;
  all[1].post_norms = true;
  all[2].prelude = 0;
  all[2].shared = 1;
  all[2].injection = "add";
  all[3].coda = 0;
  all[3].shared = 1;
  for (size_t i = 0; i < all.size(); ++i) all[i].seed = i + 1;
  return all;
}

Word tag(const testing::RandomModel& file, const std::string& name) {
  if (!file.has(name)) return 0;
  Word word = 0;
  std::memcpy(&word, file.at(name).values.data(), sizeof word);
  return word;
}

SimModel make(const testing::ModelShape& shape) {
  SimModel model{.file = testing::write_random_model(shape), .layers = {}};
  model.embedding = model.head = tag(model.file, "token_embd.weight");
  model.output_norm = tag(model.file, "output_norm.weight");
  model.loop_norm = tag(model.file, "loop_norm.weight");
  model.inject = tag(model.file, "loop_inject.weight");
  for (int32_t i = 0; i < shape.prelude + shape.shared + shape.coda; ++i) {
    const auto part = [&](const char* name) {
      return tag(model.file, "blk." + std::to_string(i) + "." + name + ".weight");
    };
    model.layers.push_back({part("attn_norm"), part("attn_q"), part("attn_k"), part("attn_v"),
                            part("attn_output"), part("attn_post_norm"), part("ffn_norm"),
                            part("ffn_gate"), part("ffn_up"), part("ffn_down"),
                            part("ffn_post_norm")});
  }
  return model;
}

}  // namespace

const std::vector<SimModel>& sim_models() {
  static const std::vector<SimModel> models = [] {
    std::vector<SimModel> made;
    for (const testing::ModelShape& shape : shapes()) made.push_back(make(shape));
    return made;
  }();
  return models;
}

}  // namespace tinyloop::sim
