// 8-bit activations against panels of quantised weights: the rounding of activations, the panels'
// layout, and the linear layer, on every SIMD target.
#include <cmath>
#include <limits>

#include "kernels/weight_panels.h"
#include "tests/support/op_test.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::LinearArgs;
using kernels::QuantisedBlock;
using kernels::WeightLayout;
using kernels::WeightMatrix;
using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0};

// A matrix on the device in panels, and the values of its rows.
struct PanelWeights {
  PanelWeights(kernels::Backend& backend, WeightType type, int32_t out, int32_t in,
               const std::vector<std::byte>& file)
      : matrix{type, out, in, nullptr, WeightLayout::panels},
        values(dequantise(type, file)),
        device(backend, pack(file)) {
    matrix.data = device.data();
  }
  PanelWeights(kernels::Backend& backend, WeightType type, int32_t out, int32_t in,
               OpRandom& random)
      : PanelWeights(backend, type, out, in,
                     quantise(type, random.values(size_t(out) * size_t(in)))) {}

  std::vector<std::byte> pack(const std::vector<std::byte>& file) const {
    std::vector<std::byte> panels(matrix.bytes(), std::byte{0xee});
    const WeightMatrix rows{matrix.type, matrix.rows, matrix.cols, file.data()};
    const size_t bytes = kernels::panel_bytes(matrix.type, matrix.cols);
    for (int32_t first = 0; first < panel_count(matrix); first += 2) {  // in slices
      const int32_t count = std::min(2, panel_count(matrix) - first);
      kernels::pack_panels(rows, first, count, panels.data() + size_t(first) * bytes);
    }
    return panels;
  }

  WeightMatrix matrix;
  std::vector<float> values;
  DeviceArray<std::byte> device;
};

std::vector<float> dequantise(const std::vector<QuantisedBlock>& blocks) {
  std::vector<float> values;
  for (const QuantisedBlock& block : blocks) {
    for (int8_t code : block.codes) values.push_back(block.scale * float(code));
  }
  return values;
}

class LinearInt8Test : public OpTest {
 protected:
  // The rows of x on the device, rounded to 8 bits.
  OpMatrix quantised(kernels::Backend& on, const std::vector<float>& x, int32_t cols,
                     RowLayout layout = RowLayout::dense) {
    const auto rows = int32_t(x.size() / size_t(cols));
    OpMatrix matrix(on, rows, cols, layout, random(), x);
    on.quantise_rows({matrix.view(), matrix.view().as_q8(), rows, cols});
    return matrix;
  }

  std::vector<float> run(kernels::Backend& on, const WeightMatrix& weights,
                         const std::vector<float>& x, RowLayout layout = RowLayout::dense) {
    const auto rows = int32_t(x.size() / size_t(weights.cols));
    const OpMatrix in = quantised(on, x, weights.cols, layout);
    const OpMatrix out(on, rows, weights.rows, layout, random());
    on.linear({weights, in.view().as_q8(), out.view(), rows});
    EXPECT_TRUE(in.untouched());
    EXPECT_TRUE(out.untouched());
    return out.values();
  }

  // Against float64 on the rounded activations.
  void check(const PanelWeights& weights, const std::vector<float>& x, RowLayout layout) {
    const int32_t in = weights.matrix.cols, out = weights.matrix.rows;
    const auto rows = int32_t(x.size() / size_t(in));
    SCOPED_TRACE(::testing::Message() << weight_format(weights.matrix.type).name << " " << out
                                      << "x" << in << ", rows " << rows);
    const auto rounded = dequantise(quantised(backend(), x, in).blocks());
    EXPECT_TRUE(near(run(backend(), weights.matrix, x, layout),
                     reference_linear(weights.values, rounded, rows, out, in), kTolerance));
  }

  // The sums of Q4_0 and Q8_0 count from an offset; Q4_1 adds its minimum apart.
  static constexpr double kTolerance = 5e-6;
};

TEST_P(LinearInt8Test, ActivationsAreRoundedInBlocksOf32) {
  constexpr int32_t kCols = 160, kRows = 9;
  for (float scale : {1.0f, 1e-20f, 1e20f}) {
    auto x = random().values(size_t(kRows) * kCols, scale);
    for (size_t i = 0; i < 32; ++i) x[32 + i] = 0.0f;
    for (RowLayout layout : {RowLayout::dense, RowLayout::scattered}) {
      const auto blocks = quantised(backend(), x, kCols, layout).blocks();
      for (size_t b = 0; b < blocks.size(); ++b) {
        float largest = 0.0f;
        int32_t sum = 0;
        for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[b * 32 + i]));
        EXPECT_EQ(blocks[b].scale, largest / 127.0f);
        for (size_t i = 0; i < 32; ++i) {
          const int32_t code = blocks[b].codes[i];
          const double error = std::abs(double(x[b * 32 + i]) - double(blocks[b].scale) * code);
          EXPECT_LE(error, 0.50001 * double(blocks[b].scale));
          EXPECT_LE(std::abs(code), 127);
          sum += code;
        }
        EXPECT_EQ(blocks[b].minus_8_sums, -8 * sum);
        EXPECT_EQ(blocks[b].scaled_sum, blocks[b].scale * float(sum));
      }
    }
  }
}

TEST_P(LinearInt8Test, WhatIsNotFiniteStaysSo) {
  constexpr int32_t kIn = 64, kOut = 40;
  for (WeightType type : kTypes) {
    const PanelWeights weights(backend(), type, kOut, kIn, random());
    for (float bad : {std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}) {
      auto x = random().values(2 * kIn);
      x[40] = bad;
      const auto y = run(backend(), weights.matrix, x);
      for (int32_t o = 0; o < kOut; ++o) {
        EXPECT_FALSE(std::isfinite(y[size_t(o)]));
        EXPECT_TRUE(std::isfinite(y[size_t(kOut + o)])) << "the other row";
      }
    }
  }
}

// A block's codes are integers within their range, whatever it holds.
TEST_P(LinearInt8Test, CodesOfWhatIsNotFiniteAreZero) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                    -HUGE_VALF}) {
    auto x = random().values(32);
    x[5] = bad;
    const QuantisedBlock block = quantised(backend(), x, 32).blocks()[0];
    EXPECT_FALSE(std::isfinite(block.scale));
    EXPECT_EQ(block.minus_8_sums, 0);
    for (int8_t code : block.codes) EXPECT_EQ(code, 0);
  }
}

TEST_P(LinearInt8Test, TinyActivationsBecomeZero) {
  std::vector<float> x(64, 1e-31f);
  x[40] = -1e-38f;
  for (const QuantisedBlock& block : quantised(backend(), x, 64).blocks()) {
    EXPECT_EQ(block.minus_8_sums, 0);
    for (int8_t code : block.codes) EXPECT_EQ(code, 0);
  }
}

TEST_P(LinearInt8Test, PanelsHoldTheValuesOfTheRows) {
  for (WeightType type : kTypes) {
    for (int32_t out : {1, 31, 32, 33, 70}) {
      constexpr int32_t kIn = 96;
      const auto file = quantise(type, random().values(size_t(out) * kIn));
      const PanelWeights panels(backend(), type, out, kIn, file);
      const WeightMatrix rows{type, out, kIn, file.data()};
      const size_t count = size_t(out + 31) / 32;
      EXPECT_EQ(panels.matrix.bytes(), count * 32 * rows.row_bytes());
      std::vector<float> want(kIn), got(kIn, poison());
      for (int32_t o = 0; o < out; ++o) {
        dequantise_row(rows, o, want.data());
        dequantise_row(panels.matrix, o, got.data());
        EXPECT_TRUE(same_bits(want, got)) << weight_format(type).name << " row " << o;
      }
    }
  }
}

TEST_P(LinearInt8Test, MatchesTheReferenceForEveryTypeAndRowCount) {
  for (WeightType type : kTypes) {
    for (int32_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 63, 64, 65, 300}) {
      const PanelWeights weights(backend(), type, 45, 96, random());
      check(weights, random().values(size_t(rows) * 96), RowLayout::dense);
    }
    for (int32_t out : {1, 31, 32, 33, 100}) {
      const PanelWeights weights(backend(), type, out, 352, random());
      check(weights, random().values(11 * 352), RowLayout::scattered);
    }
  }
}

// The largest codes of both signs everywhere: no sum may saturate.
TEST_P(LinearInt8Test, ExtremeCodesDoNotOverflow) {
  constexpr int32_t kIn = 128, kOut = 33, kRows = 9;
  for (WeightType type : kTypes) {
    for (int byte : {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0}) {
      auto file = quantise(type, std::vector<float>(size_t(kIn) * kOut, 1.0f));
      const kernels::WeightFormat format = weight_format(type);
      const size_t codes = size_t(format.block_bytes - (type == WeightType::q8_0 ? 32 : 16));
      for (size_t i = 0; i < file.size(); ++i) {
        if (i % size_t(format.block_bytes) >= codes) file[i] = std::byte(byte);
      }
      const PanelWeights weights(backend(), type, kOut, kIn, file);
      for (float sign : {1.0f, -1.0f}) {
        check(weights, std::vector<float>(size_t(kRows) * kIn, sign), RowLayout::dense);
      }
    }
  }
}

TEST_P(LinearInt8Test, ARowHasTheSameBitsInEveryBatch) {
  constexpr int32_t kRows = 67, kOut = 101, kIn = 288;
  for (WeightType type : kTypes) {
    SCOPED_TRACE(weight_format(type).name);
    const PanelWeights weights(backend(), type, kOut, kIn, random());
    const auto x = random().values(size_t(kRows) * size_t(kIn));
    const auto all = run(backend(), weights.matrix, x);
    EXPECT_TRUE(same_bits(all, run(backend(), weights.matrix, x, RowLayout::scattered)));
    for (int32_t batch : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 66}) {
      const std::vector<float> part(x.end() - ptrdiff_t(batch) * kIn, x.end());
      const std::vector<float> want(all.end() - ptrdiff_t(batch) * kOut, all.end());
      EXPECT_TRUE(same_bits(want, run(backend(), weights.matrix, part))) << "batch " << batch;
    }
  }
}

TEST_P(LinearInt8Test, ThreadsChangeNoBit) {
  const auto one = backend_with(1), four = backend_with(4);
  for (WeightType type : kTypes) {
    for (int32_t rows : {1, 6, 40}) {
      OpRandom same(kSeed);
      const auto x = same.values(size_t(rows) * 256);
      std::vector<std::vector<float>> results;
      for (kernels::Backend* on : {one.get(), &backend(), four.get()}) {
        OpRandom again(kSeed + 1);
        const PanelWeights weights(*on, type, 515, 256, again);
        results.push_back(run(*on, weights.matrix, x));
      }
      EXPECT_TRUE(same_bits(results[0], results[1]));
      EXPECT_TRUE(same_bits(results[0], results[2]));
    }
  }
}

// Layers of one call, among them one without rows and one whose weights lie in rows, give what each
// gives alone.
TEST_P(LinearInt8Test, SeveralLayersInOneCall) {
  constexpr int32_t kIn = 64, kRows = 5;
  const PanelWeights a(backend(), WeightType::q4_0, 70, kIn, random());
  const PanelWeights b(backend(), WeightType::q8_0, 33, kIn, random());
  const auto file = quantise(WeightType::q4_1, random().values(20 * kIn));
  const DeviceArray<std::byte> plain(backend(), file);
  const WeightMatrix c{WeightType::q4_1, 20, kIn, plain.data()};
  const auto x = random().values(kRows * kIn);
  const OpMatrix in(backend(), kRows, kIn, RowLayout::dense, random(), x);
  const OpMatrix in8 = quantised(backend(), x, kIn);
  const auto layer = [&](const WeightMatrix& w, const OpMatrix& y, int32_t rows) {
    const bool panels = w.layout == WeightLayout::panels;
    return LinearArgs{w, panels ? in8.view().as_q8() : in.view(), y.view(), rows};
  };
  const auto output = [&](const WeightMatrix& w) {
    return OpMatrix(backend(), kRows, w.rows, RowLayout::scattered, random());
  };
  const OpMatrix ya = output(a.matrix), yb = output(b.matrix), yc = output(c);
  for (bool mixed : {false, true}) {
    std::vector<LinearArgs> layers = {layer(a.matrix, ya, kRows), layer(a.matrix, yb, 0),
                                      layer(b.matrix, yb, kRows)};
    if (mixed) layers.push_back(layer(c, yc, kRows));
    backend().linear_all(layers);
    EXPECT_TRUE(same_bits(ya.values(), run(backend(), a.matrix, x)));
    EXPECT_TRUE(same_bits(yb.values(), run(backend(), b.matrix, x)));
  }
  const OpMatrix alone = output(c);
  backend().linear(layer(c, alone, kRows));
  EXPECT_TRUE(same_bits(yc.values(), alone.values()));
}

// A norm or an activation that writes 8 bits gives what rounding its f32 result gives.
TEST_P(LinearInt8Test, FusedRoundingIsTheSameRounding) {
  constexpr int32_t kRows = 7, kCols = 352;
  const auto a = random().values(kRows * kCols, 9.0f), b = random().values(kRows * kCols, 3.0f);
  const DeviceArray<float> weight(backend(), random().values(kCols));
  const OpMatrix gate(backend(), kRows, kCols, RowLayout::scattered, random(), a);
  const OpMatrix up(backend(), kRows, kCols, RowLayout::scattered, random(), b);
  const auto compare = [&](auto op) {
    const OpMatrix wide(backend(), kRows, kCols, RowLayout::dense, random());
    const OpMatrix fused(backend(), kRows, kCols, RowLayout::scattered, random());
    op(wide.view());
    op(fused.view().as_q8());
    EXPECT_TRUE(fused.untouched());
    backend().quantise_rows({wide.view(), wide.view().as_q8(), kRows, kCols});
    const auto want = wide.blocks(), got = fused.blocks();
    EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(QuantisedBlock)), 0);
  };
  compare([&](const kernels::RowView& y) {
    backend().rms_norm({gate.view(), y, weight.data(), kRows, 1, kCols, 1e-5f});
  });
  for (auto type : {kernels::FfnType::swiglu, kernels::FfnType::relu2}) {
    compare([&](const kernels::RowView& y) {
      backend().ffn_activation({type, gate.view(), up.view(), y, kRows, kCols});
    });
  }
}

// Gate, up and activation in one op give what they give one after another.
TEST_P(LinearInt8Test, HiddenVectorIsThatOfTheThreeOps) {
  constexpr int32_t kIn = 96, kFfn = 160;
  for (WeightType type : kTypes) {
    const PanelWeights gate(backend(), type, kFfn, kIn, random());
    const PanelWeights up(backend(), WeightType::q4_1, kFfn, kIn, random());
    for (int32_t rows : {1, 7, 31, 32, 33, 100}) {
      const OpMatrix x = quantised(backend(), random().values(size_t(rows) * kIn, 5.0f), kIn,
                                   RowLayout::scattered);
      const auto made = [&] {
        return OpMatrix(backend(), rows, kFfn, RowLayout::scattered, random());
      };
      for (auto ffn : {kernels::FfnType::swiglu, kernels::FfnType::relu2}) {
        const bool gated = ffn == kernels::FfnType::swiglu;
        const OpMatrix g = made(), u = made(), want = made(), got = made();
        backend().linear({gate.matrix, x.view().as_q8(), g.view(), rows});
        backend().linear({up.matrix, x.view().as_q8(), u.view(), rows});
        backend().ffn_activation({ffn, g.view(), u.view(), want.view().as_q8(), rows, kFfn});
        backend().ffn_hidden({ffn, gated ? gate.matrix : WeightMatrix{}, up.matrix,
                              x.view().as_q8(), got.view().as_q8(), rows});
        const auto a = want.blocks(), b = got.blocks();
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(QuantisedBlock)), 0)
            << weight_format(type).name << ", rows " << rows;
        EXPECT_TRUE(got.untouched());
      }
    }
  }
}

TEST_P(LinearInt8Test, LogitsAndEmbeddingsReadPanels) {
  constexpr int32_t kVocab = 101, kIn = 64, kRows = 3;
  const PanelWeights table(backend(), WeightType::q8_0, kVocab, kIn, random());
  const auto x = random().values(kRows * kIn);
  const OpMatrix in = quantised(backend(), x, kIn);
  const DeviceArray<float> logits(backend(), std::vector<float>(kRows * kVocab, poison()));
  backend().logits({table.matrix, in.view().as_q8(), logits.data(), kRows, 0.0f});
  backend().synchronise();
  EXPECT_TRUE(same_bits(logits.read(), run(backend(), table.matrix, x)));

  const DeviceArray<int32_t> tokens(backend(), std::vector<int32_t>{100, 0, 32});
  const OpMatrix rows(backend(), kRows, kIn, RowLayout::scattered, random());
  backend().embed({table.matrix, tokens.data(), kRows, 1.0f, rows.view()});
  const auto values = rows.values();
  int32_t row = 0;
  for (int32_t token : {100, 0, 32}) {
    EXPECT_EQ(row_of(values, row++, kIn), row_of(table.values, token, kIn));
  }
}

// Panels and 8-bit activations are the CPU's alone.
TINYLOOP_ON_THE_CPU(LinearInt8Test);

// The integer sums are exact, and what follows is done lane by lane: targets that have fused
// multiply-add agree to the bit.
TEST(LinearInt8TargetsTest, FusedMultiplyAddTargetsAgree) {
  constexpr int32_t kRows = 13, kIn = 352, kOut = 70;
  for (WeightType type : kTypes) {
    std::vector<float> first;
    for (const OpDevice& device : cpu_devices()) {
      if (device.name.find("AVX") == std::string::npos) continue;
      SCOPED_TRACE(device.name);
      OpRandom random(1);
      const auto backend = device.make(2);
      const PanelWeights weights(*backend, type, kOut, kIn, random);
      const OpMatrix x(*backend, kRows, kIn, RowLayout::dense, random,
                       random.values(size_t(kRows) * kIn));
      const OpMatrix y(*backend, kRows, kOut, RowLayout::dense, random);
      backend->quantise_rows({x.view(), x.view().as_q8(), kRows, kIn});
      backend->linear({weights.matrix, x.view().as_q8(), y.view(), kRows});
      const auto values = y.values();
      if (first.empty()) first = values;
      EXPECT_TRUE(same_bits(first, values));
      device.leave();
    }
  }
}

}  // namespace
}  // namespace tinyloop::testing
