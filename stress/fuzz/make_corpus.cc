// Writes the fuzzers' seeds, files of a few kilobytes: tinyloop_fuzz_corpus FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/support/random_model.h"

namespace fs = std::filesystem;
using tinyloop::kernels::WeightType;
using tinyloop::testing::GgufWriter;
using tinyloop::testing::ModelShape;
using tinyloop::testing::QkNorm;

namespace {

// The smallest model that has every part.
ModelShape tiny() {
  ModelShape shape;
  shape.d_model = 2;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = 2;
  shape.ffn = 3;
  shape.vocab = 4;
  shape.shared = 1;
  shape.matrix_type = WeightType::f16;
  shape.embedding_type = WeightType::f32;
  shape.tokenizer = false;
  return shape;
}

ModelShape changed(const std::function<void(ModelShape&)>& change) {
  ModelShape shape = tiny();
  change(shape);
  return shape;
}

class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) { fs::create_directories(path_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + (path_ / name).string());
  }
  void write(const std::string& name, const GgufWriter& writer) const {
    const auto bytes = writer.bytes();
    write(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void write(const std::string& name, const ModelShape& shape) const {
    write(name, tinyloop::testing::random_model_writer(shape));
  }

 private:
  fs::path path_;
};

void write_options(const Folder& folder) {
  folder.write("plain.gguf", tiny());
  for (const char* injection : {"add", "linear", "diagonal"}) {
    folder.write(std::string("inject_") + injection + ".gguf",
                 changed([&](ModelShape& shape) { shape.injection = injection; }));
  }
  for (const char* state : {"zeros", "normal"}) {
    folder.write(std::string("state_") + state + ".gguf",
                 changed([&](ModelShape& shape) { shape.initial_state = state; }));
  }
  folder.write("norms.gguf", changed([](ModelShape& shape) {
                 shape.loop_norm = shape.post_norms = true;
                 shape.qk_norm = QkNorm::per_head;
                 shape.output_norm = false;
               }));
  folder.write("wide_norms.gguf",
               changed([](ModelShape& shape) { shape.qk_norm = QkNorm::full_width; }));
  folder.write("options.gguf", changed([](ModelShape& shape) {
                 shape.ffn_type = "relu2";
                 shape.exit = "gate";
                 shape.embedding_scale = 2.0f;
                 shape.logit_softcap = 30.0f;
                 shape.tied = false;
                 shape.version = 2;
               }));
  folder.write("blocks.gguf", changed([](ModelShape& shape) {
                 shape.d_model = shape.ffn = 32;
                 shape.heads = 1;
                 shape.head_dim = 32;
                 shape.prelude = shape.coda = 0;
                 shape.matrix_type = WeightType::q4_1;
                 shape.embedding_type = WeightType::q8_0;
               }));
  folder.write("tokenizer.gguf", changed([](ModelShape& shape) {
                 shape.vocab = 270;
                 shape.tokenizer = true;
                 shape.prelude = shape.coda = 0;
                 shape.embedding_type = WeightType::bf16;
               }));
}

// SentencePiece pieces: three special ones, the 256 bytes, some letters and pairs of them.
void write_sentencepiece(GgufWriter& writer) {
  std::vector<std::string> pieces = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    pieces.push_back(text);
    types.push_back(6);
  }
  for (const char* piece : {"\xe2\x96\x81", "e", "s", "t", "es", "\xe2\x96\x81t", "test"}) {
    pieces.push_back(piece);
    types.push_back(1);
  }
  std::vector<float> scores;
  for (size_t i = 0; i < pieces.size(); ++i) scores.push_back(-0.5f * float(i));
  writer.string("tokenizer.ggml.model", "llama");
  writer.strings("tokenizer.ggml.tokens", pieces);
  writer.floats("tokenizer.ggml.scores", scores);
  writer.integers("tokenizer.ggml.token_type", types);
  writer.u32("tokenizer.ggml.bos_token_id", 1);
  writer.u32("tokenizer.ggml.eos_token_id", 2);
}

void write_llama(const Folder& folder) {
  folder.write("llama.gguf", tinyloop::testing::llama_model_writer(tiny()));
  GgufWriter writer = tinyloop::testing::llama_model_writer(changed([](ModelShape& shape) {
    shape.vocab = 270;
    shape.prelude = shape.coda = 0;
  }));
  write_sentencepiece(writer);
  folder.write("llama_tokenizer.gguf", writer);
}

void write_broken(const Folder& folder) {
  const GgufWriter good = tinyloop::testing::random_model_writer(tiny());
  const auto bytes = good.bytes();
  const std::string whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  folder.write("cut_header.gguf", whole.substr(0, 100));
  folder.write("cut_data.gguf", whole.substr(0, whole.size() - 1));
  folder.write("counts.gguf", whole.substr(0, 8) + std::string(16, '\x7f') + whole.substr(24));
  GgufWriter many = good;
  many.u32("tinyloop.block_count", 4096);
  many.u32("tinyloop.loop.shared_layers", 4094);
  folder.write("many_layers.gguf", many);
  GgufWriter overlap = good;
  overlap.at("blk.1.attn_q.weight").offset_shift = -32;
  folder.write("overlap.gguf", overlap);
  GgufWriter arrays = good;
  arrays.strings("extra.strings", {"", "a", "b"});
  arrays.floats("extra.floats", {1.0f, -1.0f});
  arrays.u64("extra.u64", ~uint64_t{0});
  folder.write("extra_keys.gguf", arrays);
}

// The first byte picks the tokenizer (bits 3 to 5) and the options (bits 0 to 2).
void write_texts(const Folder& folder) {
  const std::string english = "Once upon a time, there were 32 children's toys.\n\n  <|endoftext|>";
  const std::string unicode =
      "Gr\xc3\xbc\xc3\x9f\x65 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x90\x9f e\xcc\x81";
  const std::string broken = "\xff\xfe\x80\xc3 \xe4\xbd \xf0\x9f\x90 \xed\xa0\x80";
  for (int tokenizer = 0; tokenizer < 8; ++tokenizer) {
    const std::string number = std::to_string(tokenizer);
    const auto choice = [&](int options) { return std::string(1, char(tokenizer * 8 + options)); };
    folder.write("english_" + number, choice(1) + english);
    folder.write("unicode_" + number, choice(4) + unicode);
    folder.write("broken_" + number, choice(6) + broken);
  }
}

void write_plans(const Folder& folder) {
  folder.write(
      "empty",
      R"({"pass":0,"chunks":[],"tokens":[],"slots":[],"copies":[],"prelude_pages":[],"coda_pages":[],)"
      R"("loop_pages":[]})");
  folder.write(
      "one_chunk",
      R"({"pass":7,"chunks":[{"sequence":3,"rows":2,"first_position":0,"depth":4,)"
      R"("iteration":-1,"window":0,"enters":true,"leaves":false,"logit_rows":1,)"
      R"("first_row":0,"pages":1,"prelude_table":0,"coda_table":0,"loop_table":0}],"tokens":[1,2],)"
      R"("slots":[0,1],"copies":[{"group":2,"from":1,"to":2}],"prelude_pages":[5],"coda_pages":[5],"loop_pages":[6]})");
  folder.write("deep", std::string(4000, '['));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tinyloop_fuzz_corpus FOLDER\n");
    return 2;
  }
  const fs::path root = argv[1];
  const Folder models(root / "gguf_loader");
  write_options(models);
  write_llama(models);
  write_broken(models);
  write_texts(Folder(root / "tokenizer"));
  write_plans(Folder(root / "step_plan"));
}
