#include <algorithm>
#include <span>

#include "kernels/count_tokens.h"

namespace tinyloop::kernels {

void count_row(const CountTokensArgs& args) {
  std::fill_n(args.counts, args.vocab, 0u);
  const std::span tokens(args.tokens, size_t(args.total));
  const auto prompt = size_t(args.prompt);
  for (const int32_t token : tokens.subspan(prompt)) ++args.counts[token];
  for (const int32_t token : tokens.first(prompt)) args.counts[token] |= kInPrompt;
}

void count_tokens_cpu(CpuContext&, const CountTokensArgs& args) {
  count_row(args);
}

}  // namespace tinyloop::kernels
