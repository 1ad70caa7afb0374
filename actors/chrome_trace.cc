// Chrome's trace event format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
// events ("X"), instants ("i") and names of tracks ("M"). The replica is one process with one
// track, its requests are another one with a track each.
#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tinyloop/error.h"
#include "tinyloop/trace.h"

namespace tinyloop {

const char* to_string(TraceKind kind) noexcept {
  switch (kind) {
    case TraceKind::step:
      return "step";
    case TraceKind::pass:
      return "pass";
    case TraceKind::failure:
      return "failure";
    case TraceKind::queue:
      return "queue";
    case TraceKind::prefill:
      return "prefill";
    case TraceKind::decode:
      return "decode";
    case TraceKind::chunk:
      return "chunk";
    case TraceKind::end:
      return "end";
  }
  return "unknown";
}

namespace {

constexpr int kReplicaProcess = 1;
constexpr int kRequestsProcess = 2;

int process_of(uint64_t request) {
  return request == 0 ? kReplicaProcess : kRequestsProcess;
}

// With its quotation marks.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Appends an object of JSON to a text, field by field; its end is the object's.
class Object {
 public:
  explicit Object(std::string& text) : text_(text) { text_ += '{'; }
  ~Object() { text_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  template <std::integral Number>
  Object& add(const char* key, Number value) {
    return add_as_is(key, std::to_string(value));
  }
  Object& add(const char* key, bool value) { return add_as_is(key, value ? "true" : "false"); }
  // `value` has nothing in it that would have to be escaped.
  Object& add(const char* key, const char* value) {
    name(key);
    text_ += '"';
    text_ += value;
    text_ += '"';
    return *this;
  }
  // `value` is JSON.
  Object& add_as_is(const char* key, const std::string& value) {
    name(key);
    text_ += value;
    return *this;
  }
  Object inner(const char* key) {
    name(key);
    return Object(text_);
  }

 private:
  void name(const char* key) {
    if (!first_) text_ += ',';
    first_ = false;
    text_ += '"';
    text_ += key;
    text_ += "\":";
  }

  std::string& text_;
  bool first_ = true;
};

std::string name_of(const TraceEvent& e) {
  if (e.kind != TraceKind::chunk) return to_string(e.kind);
  return e.iteration < 0 ? "waits" : "iteration " + std::to_string(e.iteration);
}

std::string outcome_of(const TraceEvent& e) {
  return e.error == errc::ok ? to_string(e.finish_reason) : error_category().message(int(e.error));
}

void add_arguments(const TraceEvent& e, Object&& out) {
  switch (e.kind) {
    case TraceKind::step:
      out.add("first_pass", e.pass).add("passes", e.passes).add("rows", e.rows);
      out.add("prompt_rows", e.prompt_rows).add("tokens", e.tokens);
      return;
    case TraceKind::pass:
      out.add("pass", e.pass).add("rows", e.rows).add("prompt_rows", e.prompt_rows);
      return;
    case TraceKind::chunk:
      out.add("pass", e.pass).add("iteration", e.iteration).add("depth", e.depth);
      out.add("rows", e.rows).add("position", e.position);
      out.add("enters", e.enters).add("leaves", e.leaves);
      return;
    case TraceKind::end:
      out.add("outcome", outcome_of(e).c_str()).add("prompt_tokens", e.prompt_tokens);
      out.add("tokens", e.tokens).add("loops", e.depth);
      return;
    case TraceKind::failure:
    case TraceKind::queue:
    case TraceKind::prefill:
    case TraceKind::decode:
      return;
  }
}

void add_event(const TraceEvent& e, Object&& out) {
  out.add("name", name_of(e).c_str()).add("cat", to_string(e.kind));
  out.add("pid", process_of(e.request)).add("tid", e.request).add("ts", e.begin_us);
  if (e.kind == TraceKind::end || e.kind == TraceKind::failure) {
    out.add("ph", "i").add("s", "t");  // on its own track
  } else {
    out.add("ph", "X").add("dur", e.end_us - e.begin_us);
  }
  add_arguments(e, out.inner("args"));
}

void name_track(const char* what, int process, uint64_t track, const std::string& name,
                Object&& out) {
  out.add("name", what).add("ph", "M").add("pid", process).add("tid", track);
  out.inner("args").add_as_is("name", quoted(name));
}

// A viewer takes what is nested from the order: by track and time, the longer ones first.
std::vector<const TraceEvent*> in_order(const std::vector<TraceEvent>& events) {
  std::vector<const TraceEvent*> order;
  order.reserve(events.size());
  for (const TraceEvent& e : events) order.push_back(&e);
  std::sort(order.begin(), order.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::tuple(a->request, a->begin_us, -a->end_us, a->kind) <
           std::tuple(b->request, b->begin_us, -b->end_us, b->kind);
  });
  return order;
}

}  // namespace

std::string chrome_trace_json(const Trace& trace) {
  std::string text;
  text.reserve(200 * trace.events.size());
  {
    Object page(text);
    page.add("displayTimeUnit", "ms");
    page.inner("otherData")
        .add_as_is("model", quoted(trace.model))
        .add_as_is("device", quoted(trace.device))
        .add("lost", trace.lost);
    page.add_as_is("traceEvents", "[\n");
    name_track("process_name", kReplicaProcess, 0,
               "replica: " + trace.model + " on " + trace.device, Object(text));
    const auto line = [&text]() -> Object { return Object(text += ",\n"); };
    name_track("process_name", kRequestsProcess, 0, "requests", line());
    name_track("thread_name", kReplicaProcess, 0, "steps", line());
    uint64_t named = 0;
    for (const TraceEvent* e : in_order(trace.events)) {
      if (e->request != named) {
        named = e->request;
        name_track("thread_name", kRequestsProcess, named, "request " + std::to_string(named),
                   line());
      }
      add_event(*e, line());
    }
    text += "\n]";
  }
  return text += '\n';
}

}  // namespace tinyloop
