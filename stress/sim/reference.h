// What a request must give, from the definition of the model alone: a row meets its layers one
// after another, each position attends to those before it. No pages, chunks, batches or handles;
// nothing of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stress/sim/models.h"

namespace tinyloop::sim {

struct Row;  // a row that has been computed

// How the next token is chosen.
struct Choosing {
  float temperature = 0;
  int32_t top_k = 0;
  uint64_t seed = 0;
  float frequency_penalty = 0;
};

// Rows that have been computed are kept, in a tree of texts: later requests begin alike.
class Reference {
 public:
  explicit Reference(const SimModel& model);
  ~Reference();

  // A text as it grows. A row's depth is its own: behind a resumed prefix the rest may be
  // shallower.
  class Text {
   public:
    Text(Reference& reference, int32_t window);
    void push(int32_t token, int32_t depth);
    // After the last row. The first `prompt` rows are the prompt.
    int32_t next_token(const Choosing& choosing, size_t prompt) const;
    float logprob(int32_t token) const;

   private:
    friend class Reference;
    Reference& reference_;
    const int32_t window_;
    Row* root_;
    std::vector<Row*> rows_;
  };

 private:
  Row* compute(const Text& text, int32_t token, int32_t depth);
  Word layer(const LayerTags& tags, const Text& text, Row& row, size_t slot, Word x) const;

  const SimModel& model_;
  std::vector<std::pair<int32_t, std::unique_ptr<Row>>> roots_;  // by window
  size_t rows_ = 0;
};

// Of sim_models()[index].
Reference& reference(size_t index);

}  // namespace tinyloop::sim
