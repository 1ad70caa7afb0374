// The blocking interface: prefix caches and resume handles.
#include <boost/asio/io_context.hpp>
#include <memory>
#include <utility>

#include "actors/blocking_call.h"
#include "base/bounds.h"
#include "base/limits.h"

namespace tinyloop {

namespace {

// Deletes the handle; returns when its memory is back.
template <class Kind>
void free_handle(Kind* handle) {
  if (!handle) return;
  const std::unique_ptr<Kind> owned(handle);
  actors::attempt([&] {
    boost::asio::io_context io(1);
    detail::release(*owned, {boost::asio::bind_executor(io, [](error_code) {}), io.get_executor()});
    return io.run();
  });
}

}  // namespace

PrefixCache* build_prefix_cache(Model* model, const int32_t* tokens, int seq_len, int n_loops,
                                int cache_window) {
  const actors::BlockingCall call("build_prefix_cache", model);
  return call.run_or<PrefixCache*>(nullptr, [&] {
    PrefixRequest request = call.prefix(tokens, seq_len, cache_window);
    call.check_loops("n_loops", n_loops);
    request.loops = n_loops;
    return new PrefixCache(actors::wait_for<PrefixCache>([&](auto token) {
      call.model().async_build_prefix(std::move(request), std::move(token));
    }));
  });
}

void free_prefix_cache(PrefixCache* prefix_cache) {
  free_handle(prefix_cache);
}

std::vector<int32_t> generate_from_prefix_cache(Model* model, const PrefixCache* prefix_cache,
                                                const GenerateConfig& config) {
  const actors::BlockingCall call("generate_from_prefix_cache", model);
  return call.run([&] {
    GenerateRequest request;
    request.prefix = actors::given("prefix_cache", prefix_cache);
    return call.generate(std::move(request), config, actors::kBlockingLoops);
  });
}

ResumeHandle* build_resume_handle(Model* model, const int32_t* tokens, int seq_len, int L_used,
                                  int max_loops, int cache_window) {
  const actors::BlockingCall call("build_resume_handle", model, actors::OutOfMemory::is_a_breach);
  return call.run_or<ResumeHandle*>(nullptr, [&] {
    ResumeRequest request;
    request.prefix = call.prefix(tokens, seq_len, cache_window);
    base::check_range("max_loops", max_loops, 1, base::kMaxResumeLoops);
    call.check_loops("L_used", L_used, 1, max_loops);
    request.prefix.loops = L_used;
    request.max_loops = max_loops;
    return new ResumeHandle(actors::wait_for<ResumeHandle>([&](auto token) {
      call.model().async_build_resume(std::move(request), std::move(token));
    }));
  });
}

std::vector<int32_t> resume_generate(Model* model, const ResumeHandle* handle, int new_L,
                                     const GenerateConfig& config) {
  const actors::BlockingCall call("resume_generate", model);
  return call.run([&] {
    GenerateRequest request;
    request.resume = actors::given("handle", handle);
    const PrefixInfo info = request.resume.info();
    call.check_loops("new_L", new_L, info.loops, info.max_loops);
    request.resume_loops = new_L;
    return call.generate(std::move(request), config, new_L);
  });
}

void free_resume_handle(ResumeHandle* handle) {
  free_handle(handle);
}

}  // namespace tinyloop
