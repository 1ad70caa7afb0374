// https://prometheus.io/docs/instrumenting/exposition_formats: one family of samples after another,
// each with a line of help and of type.
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "tinyloop/metrics.h"

namespace tinyloop {

namespace {

std::string escaped(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result;
}

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string number(uint64_t value) {
  return std::to_string(value);
}

class Page {
 public:
  explicit Page(std::span<const Metrics> replicas) : replicas_(replicas) {}

  // sample(metrics): the value, a number.
  template <class Sample>
  void gauge(std::string_view name, std::string_view help, Sample sample) {
    single(name, help, "gauge", sample);
  }
  template <class Sample>
  void counter(std::string_view name, std::string_view help, Sample sample) {
    single(name, help, "counter", sample);
  }
  // samples(metrics): pairs of a value of `label` and a number.
  template <class Samples>
  void labelled(std::string_view name, std::string_view help, std::string_view type,
                std::string_view label, Samples samples) {
    begin(name, help, type);
    for (const Metrics& m : replicas_) {
      for (const auto& [which, value] : samples(m)) {
        line(name, m, std::string(label) + "=\"" + which + "\"", number(value));
      }
    }
  }
  void histogram(std::string_view name, std::string_view help, Histogram Metrics::*which) {
    begin(name, help, "histogram");
    const std::string base(name);
    for (const Metrics& m : replicas_) {
      const Histogram& h = m.*which;
      uint64_t below = 0;
      for (size_t i = 0; i < h.counts.size(); ++i) {
        below += h.counts[i];
        const std::string bound = i < h.bounds.size() ? number(h.bounds[i]) : "+Inf";
        line(base + "_bucket", m, "le=\"" + bound + "\"", number(below));
      }
      line(base + "_sum", m, {}, number(h.sum));
      line(base + "_count", m, {}, number(below));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  template <class Sample>
  void single(std::string_view name, std::string_view help, std::string_view type, Sample sample) {
    begin(name, help, type);
    for (const Metrics& m : replicas_) line(name, m, {}, number(sample(m)));
  }

  void begin(std::string_view name, std::string_view help, std::string_view type) {
    (((text_ += "# HELP tinyloop_") += name) += ' ') += help;
    ((((text_ += "\n# TYPE tinyloop_") += name) += ' ') += type) += '\n';
  }

  void line(std::string_view name, const Metrics& m, const std::string& label,
            const std::string& value) {
    (((text_ += "tinyloop_") += name) += "{model=\"") += escaped(m.model);
    ((text_ += "\",replica=\"") += std::to_string(m.replica)) += '"';
    if (!label.empty()) (text_ += ',') += label;
    ((text_ += "} ") += value) += '\n';
  }

  const std::span<const Metrics> replicas_;
  std::string text_;
};

using Sample = std::pair<const char*, uint64_t>;
using Samples = std::vector<Sample>;

void add_requests(Page& page) {
  page.counter("requests_accepted_total", "Requests taken on.",
               [](const Metrics& m) { return m.statistics.accepted; });
  page.labelled("requests_rejected_total", "Requests refused, by reason.", "counter", "reason",
                [](const Metrics& m) -> Samples {
                  const Rejections& r = m.rejections;
                  return {{"invalid", r.invalid},
                          {"overloaded", r.overloaded},
                          {"out_of_memory", r.out_of_memory},
                          {"closed", r.closed},
                          {"other", r.other}};
                });
  page.labelled("requests_completed_total", "Accepted requests that have ended, by outcome.",
                "counter", "outcome", [](const Metrics& m) -> Samples {
                  const Statistics& s = m.statistics;
                  return {{"ok", s.completed_ok},
                          {"cancelled", s.completed_cancelled},
                          {"deadline", s.completed_deadline},
                          {"failed", s.completed_failed}};
                });
  page.labelled("cancels_total", "Cancels, by where they reached their request.", "counter",
                "phase", [](const Metrics& m) -> Samples {
                  const Cancels& c = m.cancels;
                  return {{"queued", c.queued},
                          {"prefill", c.prefill},
                          {"decode", c.decode},
                          {"too_late", c.too_late}};
                });
  page.counter("requests_out_of_memory_total", "Requests that failed for want of memory.",
               [](const Metrics& m) { return m.out_of_memory; });
  page.gauge("requests_queued", "Requests accepted and not begun.",
             [](const Metrics& m) { return uint64_t(m.queued); });
  page.gauge("requests_active", "Requests begun and not complete.",
             [](const Metrics& m) { return uint64_t(m.active); });
}

void add_work(Page& page) {
  page.counter("tokens_generated_total", "Tokens sampled.",
               [](const Metrics& m) { return m.statistics.generated_tokens; });
  page.counter("tokens_prompt_total", "Prompt tokens computed.",
               [](const Metrics& m) { return m.statistics.prompt_tokens; });
  page.counter("passes_total", "Passes of the shared block.",
               [](const Metrics& m) { return m.statistics.passes; });
  page.counter("block_rows_total", "Rows that went through the shared block.",
               [](const Metrics& m) { return m.statistics.block_rows; });
  page.counter("preemptions_total", "Times a request made room for older ones and began again.",
               [](const Metrics& m) { return m.statistics.preemptions; });
  page.counter("saturated_values_total", "Finds of numbers beyond FP16.",
               [](const Metrics& m) { return m.statistics.saturated_values; });
  page.counter("device_launches_total", "Kernels and graphs started on the device.",
               [](const Metrics& m) { return m.statistics.device_launches; });
  page.labelled("pool_lookups_total", "Prompts looked up in a prefix pool.", "counter", "result",
                [](const Metrics& m) -> Samples {
                  return {{"hit", m.pool.hits}, {"miss", m.pool.misses}};
                });
  page.counter("pool_tokens_saved_total", "Prompt tokens that a prefix pool already had.",
               [](const Metrics& m) { return m.pool.tokens_saved; });
}

void add_memory(Page& page) {
  page.labelled("memory_bytes", "Device memory, by use.", "gauge", "use",
                [](const Metrics& m) -> Samples {
                  const MemoryReport& r = m.memory;
                  return {{"weights", r.weights}, {"fp16_weight_cache", r.fp16_weight_cache},
                          {"buffers", r.buffers}, {"workspace", r.workspace},
                          {"arena", r.arena},     {"handles", r.handles}};
                });
  page.labelled("cache_pages", "K/V pages in the arena, by state.", "gauge", "state",
                [](const Metrics& m) -> Samples {
                  return {{"used", m.memory.pages_used}, {"free", m.memory.pages_free}};
                });
  page.gauge("cache_used_bytes", "Bytes of K/V pages in use.",
             [](const Metrics& m) { return uint64_t(m.memory.page_bytes_used); });
  page.gauge("cache_reserved_bytes", "Bytes of the K/V budget spoken for.",
             [](const Metrics& m) { return uint64_t(m.memory.cache_reserved); });
  page.gauge("cache_budget_bytes", "The K/V budget.",
             [](const Metrics& m) { return uint64_t(m.memory.cache_budget); });
}

void add_times(Page& page) {
  page.histogram("queue_seconds", "From the submission until the first rows are computed.",
                 &Metrics::queue_s);
  page.histogram("first_token_seconds", "From the submission until the first token.",
                 &Metrics::first_token_s);
  page.histogram("token_interval_seconds", "Between two tokens of a request.",
                 &Metrics::token_interval_s);
  page.histogram("request_seconds", "From the submission until the end.", &Metrics::request_s);
  page.histogram("step_seconds", "Steps of the replica.", &Metrics::step_s);
  page.histogram("pass_rows", "Rows that share a pass of the block.", &Metrics::pass_rows);
}

}  // namespace

std::string prometheus_text(std::span<const Metrics> replicas) {
  Page page(replicas);
  page.labelled("replica_state", "State of the replica: 1 for the one it is in.", "gauge", "state",
                [](const Metrics& m) {
                  Samples samples;
                  for (const auto state :
                       {ReplicaState::loading, ReplicaState::serving, ReplicaState::draining,
                        ReplicaState::drained, ReplicaState::failed, ReplicaState::closed}) {
                    samples.push_back({to_string(state), state == m.state ? 1 : 0});
                  }
                  return samples;
                });
  page.gauge("uptime_seconds", "Since the load.", [](const Metrics& m) { return m.uptime_s; });
  page.counter("failures_total", "Internal and device errors.",
               [](const Metrics& m) { return m.failures; });
  add_requests(page);
  add_work(page);
  add_memory(page);
  add_times(page);
  return page.take();
}

}  // namespace tinyloop
