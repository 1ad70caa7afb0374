#include "tests/support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/philox.h"
#include "kernels/initial_state.h"

namespace tinyloop::testing {

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Reference {
 public:
  Reference(const RandomModel& model, int32_t window)
      : model_(model), shape_(model.shape), window_(window) {}

  Rows logits(const std::vector<int32_t>& tokens, int32_t loops) {
    Rows e = embed(tokens);
    for (int32_t i = 0; i < shape_.prelude; ++i) layer(e, i);
    Rows s = initial_state(e);
    for (int32_t i = 0; i < loops; ++i) {
      inject(s, e);
      for (int32_t l = 0; l < shape_.shared; ++l) layer(s, shape_.prelude + l);
      if (shape_.loop_norm) norm(s, "loop_norm.weight");
    }
    for (int32_t i = 0; i < shape_.coda; ++i) layer(s, shape_.prelude + shape_.shared + i);
    if (shape_.output_norm) norm(s, "output_norm.weight");
    Rows out = linear(s, shape_.tied ? "token_embd.weight" : "output.weight");
    if (const double c = shape_.logit_softcap; c > 0) {
      for (Row& row : out) {
        for (double& z : row) z = c * std::tanh(z / c);
      }
    }
    return out;
  }

 private:
  Rows embed(const std::vector<int32_t>& tokens) {
    const ReferenceTensor& table = model_.at("token_embd.weight");
    Rows rows;
    for (const int32_t token : tokens) {
      Row row;
      for (int32_t c = 0; c < table.cols; ++c) {
        row.push_back(double(table.values[size_t(token * table.cols + c)]) *
                      shape_.embedding_scale);
      }
      rows.push_back(row);
    }
    return rows;
  }

  Rows initial_state(const Rows& e) {
    if (shape_.initial_state == "prelude") return e;
    Rows s(e.size(), Row(size_t(shape_.d_model), 0.0));
    if (shape_.initial_state == "zeros") return s;
    for (size_t p = 0; p < s.size(); ++p) {
      for (size_t c = 0; c < s[p].size(); ++c) {
        const auto words = base::philox(kernels::kInitialStateKey,
                                        base::RandomDomain::initial_state, p, uint32_t(c / 2));
        s[p][c] = double(base::normal_pair(words)[c % 2]) * shape_.initial_state_std;
      }
    }
    return s;
  }

  void inject(Rows& s, const Rows& e) {
    if (shape_.injection == "none") return;
    if (shape_.injection == "add") return add(s, e);
    if (shape_.injection == "linear") {
      Rows both = s;
      for (size_t r = 0; r < both.size(); ++r)
        both[r].insert(both[r].end(), e[r].begin(), e[r].end());
      s = linear(both, "loop_inject.weight");
      return;
    }
    const Rows b = linear(e, "loop_inject.weight");
    const ReferenceTensor& a = model_.at("loop_inject_decay.weight");
    for (size_t r = 0; r < s.size(); ++r) {
      for (size_t c = 0; c < s[r].size(); ++c) s[r][c] = double(a.values[c]) * s[r][c] + b[r][c];
    }
  }

  void layer(Rows& x, int32_t index) {
    const std::string blk = "blk." + std::to_string(index) + ".";
    Rows branch = attention(x, blk);
    if (shape_.post_norms) norm(branch, blk + "attn_post_norm.weight");
    add(x, branch);
    branch = feed_forward(x, blk);
    if (shape_.post_norms) norm(branch, blk + "ffn_post_norm.weight");
    add(x, branch);
  }

  Rows attention(Rows h, const std::string& blk) {
    norm(h, blk + "attn_norm.weight");
    Rows q = linear(h, blk + "attn_q.weight"), k = linear(h, blk + "attn_k.weight");
    const Rows v = linear(h, blk + "attn_v.weight");
    if (shape_.qk_norm != QkNorm::none) {
      norm(q, blk + "attn_q_norm.weight");
      norm(k, blk + "attn_k_norm.weight");
    }
    rope(q);
    rope(k);
    const auto hd = size_t(shape_.head_dim);
    const auto group = size_t(shape_.heads / shape_.kv_heads);
    Rows out(h.size(), Row(size_t(shape_.heads) * hd, 0.0));
    for (size_t p = 0; p < h.size(); ++p) {
      const size_t from = window_ > 0 && p + 1 > size_t(window_) ? p + 1 - size_t(window_) : 0;
      for (size_t head = 0; head < size_t(shape_.heads); ++head) {
        attend(q[p], k, v, head * hd, (head / group) * hd, from, p, out[p]);
      }
    }
    return linear(out, blk + "attn_output.weight");
  }

  void attend(const Row& q, const Rows& k, const Rows& v, size_t q_at, size_t kv_at, size_t from,
              size_t to, Row& out) {
    const auto hd = size_t(shape_.head_dim);
    Row weights;
    for (size_t t = from; t <= to; ++t) {
      double dot = 0;
      for (size_t c = 0; c < hd; ++c) dot += q[q_at + c] * k[t][kv_at + c];
      weights.push_back(dot / std::sqrt(double(hd)));
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - top);
    for (size_t t = from; t <= to; ++t) {
      for (size_t c = 0; c < hd; ++c) out[q_at + c] += weights[t - from] / sum * v[t][kv_at + c];
    }
  }

  Rows feed_forward(Rows h, const std::string& blk) {
    norm(h, blk + "ffn_norm.weight");
    Rows up = linear(h, blk + "ffn_up.weight");
    if (shape_.ffn_type == "relu2") {
      for (Row& row : up) {
        for (double& z : row) z = z > 0 ? z * z : 0;
      }
    } else {
      const Rows gate = linear(h, blk + "ffn_gate.weight");
      for (size_t r = 0; r < up.size(); ++r) {
        for (size_t c = 0; c < up[r].size(); ++c) {
          up[r][c] *= gate[r][c] / (1 + std::exp(-gate[r][c]));
        }
      }
    }
    return linear(up, blk + "ffn_down.weight");
  }

  void rope(Rows& x) {
    const auto hd = size_t(shape_.head_dim);
    for (size_t p = 0; p < x.size(); ++p) {
      for (size_t c = 0; c < x[p].size(); c += 2) {
        const double angle =
            double(p) * std::pow(double(shape_.rope_base), -double(c % hd) / double(hd));
        const double a = x[p][c], b = x[p][c + 1];
        x[p][c] = a * std::cos(angle) - b * std::sin(angle);
        x[p][c + 1] = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }

  // Over each run of the weight's length: the whole row, or one head.
  void norm(Rows& x, const std::string& name) {
    const std::vector<float>& weight = model_.at(name).values;
    for (Row& row : x) {
      for (size_t at = 0; at < row.size(); at += weight.size()) {
        double sum = 0;
        for (size_t c = 0; c < weight.size(); ++c) sum += row[at + c] * row[at + c];
        const double scale = 1 / std::sqrt(sum / double(weight.size()) + double(shape_.eps));
        for (size_t c = 0; c < weight.size(); ++c) row[at + c] *= scale * double(weight[c]);
      }
    }
  }

  Rows linear(const Rows& x, const std::string& name) {
    const ReferenceTensor& w = model_.at(name);
    Rows y;
    for (const Row& row : x) {
      Row out(size_t(w.rows), 0.0);
      for (size_t o = 0; o < out.size(); ++o) {
        for (size_t i = 0; i < row.size(); ++i) {
          out[o] += row[i] * double(w.values[o * size_t(w.cols) + i]);
        }
      }
      y.push_back(out);
    }
    return y;
  }

  static void add(Rows& x, const Rows& y) {
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t c = 0; c < x[r].size(); ++c) x[r][c] += y[r][c];
    }
  }

  const RandomModel& model_;
  const ModelShape& shape_;
  int32_t window_;
};

}  // namespace

std::vector<std::vector<double>> reference_logits(const RandomModel& model,
                                                  const std::vector<int32_t>& tokens, int32_t loops,
                                                  int32_t window) {
  return Reference(model, window).logits(tokens, loops);
}

}  // namespace tinyloop::testing
