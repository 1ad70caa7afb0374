#include <limits>

#include "kernels/cpu/cpu_context.h"
#include "kernels/most_likely.h"

namespace tinyloop::kernels {

int32_t most_likely_token(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  bool usable = true;
  float best = -kInfinity;
  int32_t token = kNoToken;
  for (size_t i = 0; i < logits.size(); ++i) {
    usable &= logits[i] < kInfinity;  // false for NaN, too
    if (!(logits[i] > best)) continue;
    best = logits[i];
    token = int32_t(i);
  }
  return usable ? token : kNoToken;
}

void most_likely_cpu(CpuContext& cpu, const MostLikelyArgs& args) {
  cpu.for_rows(args.rows, args.vocab, [&](int32_t row) {
    const auto vocab = size_t(args.vocab);
    args.tokens[row] = most_likely_token({args.logits + size_t(row) * vocab, vocab});
  });
}

}  // namespace tinyloop::kernels
