// The blocking interface: plain functions and raw pointers over the asynchronous one, with its
// types. Any thread may call any of them at any time, also on one model, whose passes its calls
// share, and also inside a handler of the asynchronous interface.
//
//   tinyloop::Model* model = tinyloop::load_model("model.gguf");
//   tinyloop::GenerateConfig config;
//   config.max_tokens = 60;
//   std::vector<int32_t> tokens = tinyloop::generate(model, prompt.data(), prompt.size(), config);
//   tinyloop::free_model(model);
//
// Contract errors: a null or empty pointer where a value is needed, a value out of its bounds, a
// handle of another depth or of another model. They print "tinyloop: <function>: <error>" to stderr
// and abort, or throw, as the policy says. Everything else is a run-time failure: no memory, a
// device that fails, a model that is being unloaded. Functions that return tokens treat them like
// contract errors; functions that return a pointer give nullptr, and register_prefix gives 0, each
// with a message in the model's log. docs/blocking.md has both lists.
//
// A call waits while the queue is full, and while other requests hold the memory it needs. Memory
// that only handles hold is not waited for: out_of_memory.
//
// Pointers that these functions return are freed once, by the function named for it; a handle may
// be freed after its model. No call may begin with a pointer that is being freed; calls in progress
// need it no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tinyloop/detail/export.h"
#include "tinyloop/generate.h"
#include "tinyloop/prefix_pool.h"
#include "tinyloop/reuse.h"

namespace tinyloop {

class Model;  // tinyloop/model.h

// What a contract error does.
enum class ContractPolicy : uint8_t {
  abort,            // prints one line to stderr, then std::abort()
  throw_exception,  // throws boost::system::system_error with the code (tinyloop/error.h)
};

// For the whole process, from the next error on; `abort` until it is set. The one piece of state
// that the models of a process share.
TINYLOOP_API void set_contract_policy(ContractPolicy policy) noexcept;
TINYLOOP_API ContractPolicy contract_policy() noexcept;

// A model with an engine, and threads, of its own, on the device "auto" (ModelOptions). nullptr on
// any failure, whatever the policy; why is in the log, on stderr. The result may be used with the
// asynchronous interface, too.
TINYLOOP_API Model* load_model(const std::string& path, int max_seq_len = 2048,
                               int prefill_chunk = 0);

// Waits for what is in flight, then unloads. Only for what load_model has returned; nullptr: does
// nothing. Handles and copies of the Model may outlive it: requests with them are refused.
TINYLOOP_API void free_model(Model* model);

// The functions below take any Model*, also the address of one from Engine::load.

// Device bytes that the model owns, exactly: weights, their FP16 copies, buffers, workspace. What
// requests and handles hold is beside it, in Model::memory(). 0 once it has been unloaded.
TINYLOOP_API size_t vram_usage_bytes(Model* model);

// prompt[0 .. prompt_len), then the new tokens. config.loops unset: 8, in all functions that
// generate but resume_generate; a file that allows fewer needs it set.
TINYLOOP_API std::vector<int32_t> generate(Model* model, const int32_t* prompt, int prompt_len,
                                           const GenerateConfig& config);

// ---- The same prefix at the same depth, many requests
// --------------------------------------------

// Computes tokens[0 .. seq_len), 1 <= seq_len <= max_seq_len, at depth n_loops.
// cache_window: as in GenerateConfig, and for all that continues the prefix.
TINYLOOP_API PrefixCache* build_prefix_cache(Model* model, const int32_t* tokens, int seq_len,
                                             int n_loops = 8, int cache_window = 0);

// Returns when the memory is back: calls in flight with the handle are waited for. nullptr: does
// nothing. Copies of the handle are then handle_lost.
TINYLOOP_API void free_prefix_cache(PrefixCache* prefix_cache);

// The prefix's tokens, then the new ones; those of `generate` on the same prompt. config.loops must
// be the prefix's n_loops.
TINYLOOP_API std::vector<int32_t> generate_from_prefix_cache(Model* model,
                                                             const PrefixCache* prefix_cache,
                                                             const GenerateConfig& config);

// ---- The same prefix, deeper
// ---------------------------------------------------------------------

// Computes tokens[0 .. seq_len) at depth L_used, with room to go on to max_loops.
// 1 <= L_used <= max_loops <= 64. Here out_of_memory is like a contract error.
TINYLOOP_API ResumeHandle* build_resume_handle(Model* model, const int32_t* tokens, int seq_len,
                                               int L_used, int max_loops = 32,
                                               int cache_window = 0);

// Carries the prefix on to depth new_L, L_used <= new_L <= max_loops (and the file's maximum), then
// decodes config.loops iterations a token, at most new_L. config.loops unset: new_L, which gives
// the tokens of `generate` at new_L.
TINYLOOP_API std::vector<int32_t> resume_generate(Model* model, const ResumeHandle* handle,
                                                  int new_L, const GenerateConfig& config);

// As free_prefix_cache.
TINYLOOP_API void free_resume_handle(ResumeHandle* handle);

// ---- Many prefixes, the longest match
// ------------------------------------------------------------

// capacity >= 1 prefixes; beyond, the least recently used one is evicted.
TINYLOOP_API PrefixPool* create_prefix_pool(size_t capacity = 16);

// Computes a prefix and keeps it in the pool, which from its first prefix on is this model's. A
// small positive id, free for others after an eviction; the same prefix keeps its id.
TINYLOOP_API int register_prefix(PrefixPool* pool, Model* model, const int32_t* tokens, int seq_len,
                                 int n_loops = 8, int cache_window = 0);

// As `generate`, begun with the longest prefix of the pool that the prompt begins with. Matches at
// other depths than config.loops alone are a contract error; no match is none.
TINYLOOP_API std::vector<int32_t> generate_with_pool(Model* model, PrefixPool* pool,
                                                     const int32_t* prompt, int prompt_len,
                                                     const GenerateConfig& config);

// Lets go of every prefix; calls in flight keep what they use. nullptr: does nothing.
TINYLOOP_API void free_prefix_pool(PrefixPool* pool);

}  // namespace tinyloop
