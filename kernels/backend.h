// A device that can run the model's ops. The engine sees this interface alone; which device is
// behind it is decided once, by make_backend.
//
// Thread rule: one backend belongs to one replica, and only that replica's thread calls it.
// Ops are started in order and see each other's results; synchronise() waits for all of them.
// Op arguments are checked by the caller; a breach is a bug and throws base::Failure(internal).
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/copy_pages.h"
#include "kernels/copy_rows.h"
#include "kernels/count_tokens.h"
#include "kernels/device_memory.h"
#include "kernels/embed.h"
#include "kernels/ffn_activation.h"
#include "kernels/ffn_hidden.h"
#include "kernels/fp16_copy.h"
#include "kernels/initial_state.h"
#include "kernels/kv_append.h"
#include "kernels/linear.h"
#include "kernels/logits.h"
#include "kernels/normed_add.h"
#include "kernels/pace.h"
#include "kernels/qkv.h"
#include "kernels/quantise_rows.h"
#include "kernels/residual_add.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sample.h"
#include "kernels/scale_add.h"
#include "tinyloop/options.h"

namespace tinyloop::kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceMemory& memory() = 0;
  virtual ScalarType scratch_type() const = 0;  // of norm, scratch1, attn_down
  virtual KvLayout kv_layout(int32_t kv_heads, int32_t head_dim) const = 0;
  // The longest vector of a head that attention takes.
  virtual int32_t most_head_dim() const { return std::numeric_limits<int32_t>::max(); }
  // Whether attention reads KvView::tiles.
  virtual bool wants_query_tiles() const { return false; }
  // Whether ops return before they have run, so that several passes may be on their way at once.
  virtual bool runs_ahead() const { return false; }
  virtual Pace pace() const = 0;
  // How matrices of a type are to be laid out in memory() for all ops. Rows that meet panels are to
  // be q8.
  virtual WeightLayout weight_layout(WeightType type) const = 0;
  // Whether products of many rows are faster with WeightMatrix::fp16, and how to fill it.
  virtual bool wants_fp16_copies() const { return false; }
  virtual void fp16_copy(const Fp16CopyArgs&) {}
  virtual std::string description()
      const = 0;  // "cpu (AVX3, int8, 2 threads)": all that fixes the bits

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  // Several layers, none of which reads what another writes: started together.
  virtual void linear_all(std::span<const LinearArgs> layers) = 0;
  void linear(const LinearArgs& layer) { linear_all({&layer, 1}); }
  // y += W · x: a layer's branch joins the residual stream. y is f32; `branch` has the shape of y
  // and the scratch type, and may be used on the way.
  virtual void linear_add(const LinearArgs& layer, const RowView& branch) {
    linear({layer.weights, layer.x, branch, layer.rows});
    residual_add({branch, layer.y, layer.rows, layer.weights.rows});
  }
  // The same. `next` is the norm that the op behind takes of y, qkv or normed_ffn_hidden; whether
  // it has been prepared, which RmsNormArgs::prepared is to say there. Its y may be `branch`.
  virtual bool linear_add_before(const LinearArgs& layer, const RowView& branch,
                                 const RmsNormArgs& /*next*/) {
    linear_add(layer, branch);
    return false;
  }
  // A branch with a norm of its own joins the residual stream; `next` as above, or null.
  virtual bool normed_add(const NormedAddArgs& args, const RmsNormArgs* /*next*/) {
    rms_norm(args.norm);
    residual_add({args.norm.y, args.y, args.norm.rows, args.norm.cols});
    return false;
  }
  virtual void quantise_rows(const QuantiseRowsArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void kv_append(const KvAppendArgs& args) = 0;
  // The five ops that begin an attention layer, where wants_qkv() says that this is one.
  virtual bool wants_qkv() const { return false; }
  virtual void qkv(const QkvArgs&) {}
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void ffn_activation(const FfnActivationArgs& args) = 0;
  virtual void ffn_hidden(const FfnHiddenArgs& args) = 0;
  // The two ops one after another, norm.y being args.x; what norm writes may be left unwritten.
  virtual void normed_ffn_hidden(const RmsNormArgs& norm, const FfnHiddenArgs& args) {
    rms_norm(norm);
    ffn_hidden(args);
  }
  virtual void residual_add(const ResidualAddArgs& args) = 0;
  virtual void copy_rows(const CopyRowsArgs& args) = 0;
  virtual void copy_pages(const CopyPagesArgs& args) = 0;
  virtual void scale_add(const ScaleAddArgs& args) = 0;
  virtual void initial_state(const InitialStateArgs& args) = 0;
  virtual void logits(const LogitsArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;
  virtual void count_tokens(const CountTokensArgs& args) = 0;

  // A good moment to begin with what has been asked for: more will follow before synchronise().
  virtual void start() {}
  virtual void synchronise() = 0;

  // Since the backend was made; any thread, also while ops run. Statistics says what they count.
  virtual uint64_t saturated() const { return 0; }      // Statistics::saturated_values
  virtual uint64_t host_launches() const { return 0; }  // Statistics::device_launches
};

// Chooses by options.device: "cpu", "cuda:N", or "auto" ("cuda:0" where it can be used, else the
// CPU); the bounds of the options have been checked. Errors: invalid_argument for any other name,
// for a CUDA device that is not there or too old, and for a mode that the device has not;
// out_of_memory; replica_failed where the driver reports an error.
base::Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options);

// What this build can say about CUDA: "not built in", "no driver (…)", or the devices by name.
std::string cuda_status();

}  // namespace tinyloop::kernels
