// What a model counts of itself, and the page that Prometheus reads.
#include "tinyloop/metrics.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "actors/bucket_counts.h"
#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

TEST(Histogram, QuantilesLieWithinTheirBucket) {
  const Histogram h{.bounds = {1, 2, 4}, .counts = {2, 4, 2, 2}, .sum = 30};
  EXPECT_EQ(h.count(), 10u);
  EXPECT_DOUBLE_EQ(h.quantile(0.1), 0.5);
  EXPECT_DOUBLE_EQ(h.quantile(0.2), 1);
  EXPECT_DOUBLE_EQ(h.quantile(0.5), 1.75);
  EXPECT_DOUBLE_EQ(h.quantile(0.7), 3);
  EXPECT_DOUBLE_EQ(h.quantile(1), 4);  // above the last bound
  EXPECT_DOUBLE_EQ(h.quantile(-1), 0);
  EXPECT_EQ(Histogram{}.quantile(0.5), 0);
  EXPECT_EQ((Histogram{.bounds = {1}, .counts = {0, 0}}).quantile(0.5), 0);
}

TEST(Histogram, AValueOnABoundBelongsBelowIt) {
  static constexpr double kBounds[] = {1, 2};
  actors::BucketCounts counts(kBounds);
  for (const double value : {0.0, 1.0, 1.5, 2.0, 2.5, 100.0}) counts.count(value);
  const Histogram h = counts.snapshot();
  EXPECT_EQ(h.bounds, (std::vector<double>{1, 2}));
  EXPECT_EQ(h.counts, (std::vector<uint64_t>{2, 2, 2}));
  EXPECT_DOUBLE_EQ(h.sum, 107);
}

TEST(Metrics, EveryRequestAndTokenIsInItsDistribution) {
  const ServedModel served;
  std::vector<std::future<GenerateResult>> futures;
  for (int32_t i = 0; i < 6; ++i) {
    auto what = request(5 + i, i);
    what.when_full = WhenFull::wait;
    futures.push_back(served.model.async_generate(what, asio::use_future));
  }
  for (auto& future : futures) future.get();
  const Metrics m = served.model.metrics()[0];
  EXPECT_EQ(m.model, served.model.info().name);
  EXPECT_EQ(m.device, served.model.info().device);
  EXPECT_EQ(m.state, ReplicaState::serving);
  EXPECT_GT(m.uptime_s, 0);
  EXPECT_EQ(m.queued + m.active, 0u);
  EXPECT_EQ(m.statistics.completed_ok, 6u);
  EXPECT_EQ(m.queue_s.count(), 6u);
  EXPECT_EQ(m.first_token_s.count(), 6u);
  EXPECT_EQ(m.request_s.count(), 6u);
  EXPECT_EQ(m.token_interval_s.count(), m.statistics.generated_tokens - 6);
  EXPECT_GE(m.first_token_s.sum, m.queue_s.sum);
  EXPECT_GE(m.request_s.sum, m.first_token_s.sum + m.token_interval_s.sum - 1e-9);
  EXPECT_GT(m.step_s.count(), 0u);
  EXPECT_LE(m.step_s.sum, m.uptime_s);
  EXPECT_EQ(m.pass_rows.count(), m.step_s.count());
  EXPECT_GE(m.pass_rows.sum, double(m.step_s.count()));  // a row at least
  EXPECT_EQ(m.memory.total(), served.model.memory().total());
  EXPECT_EQ(Model().metrics().size(), 0u);
}

TEST(Metrics, RefusalsAndCancelsHaveTheirReasons) {
  ModelOptions options = small_options();
  options.max_queued = 1;
  options.cache_budget_bytes = bytes_of(request(40));
  const ServedModel served(options);
  const auto error = [&](GenerateRequest what) {
    auto future = served.model.async_generate(std::move(what), use_outcome());
    return error_of(future);
  };
  EXPECT_TRUE(error(request(0)) == errc::invalid_argument);
  EXPECT_TRUE(error(request(200)) == errc::out_of_memory);
  asio::cancellation_signal signal;
  std::future<error_code> queued;
  {
    const Pause pause(served.model);
    queued = served.model.async_generate(request(3),
                                         asio::bind_cancellation_slot(signal.slot(), use_error()));
    EXPECT_TRUE(error(request(3)) == errc::overloaded);
    EXPECT_EQ(served.model.metrics()[0].queued, 1u);
    signal.emit(asio::cancellation_type::terminal);
  }
  EXPECT_EQ(queued.get(), asio::error::operation_aborted);
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_TRUE(error(request(3)) == errc::model_closed);
  const Metrics m = served.model.metrics()[0];
  EXPECT_EQ(m.rejections.invalid, 1u);
  EXPECT_EQ(m.rejections.out_of_memory, 1u);
  EXPECT_EQ(m.rejections.overloaded, 1u);
  EXPECT_EQ(m.rejections.closed, 1u);
  EXPECT_EQ(m.rejections.other, 0u);
  EXPECT_EQ(m.statistics.rejected, 4u);
  EXPECT_EQ(m.out_of_memory, 1u);
  EXPECT_EQ(m.cancels.queued, 1u);
  EXPECT_EQ(m.cancels.prefill + m.cancels.decode + m.cancels.too_late, 0u);
  EXPECT_EQ(m.queue_s.count(), 0u);
  EXPECT_EQ(m.state, ReplicaState::closed);
}

TEST(Metrics, LookupsOfAllPoolsTogether) {
  const ServedModel served;
  PrefixPool one(PoolOptions{}), other(PoolOptions{});
  auto what = request(2);
  what.pool = one;
  served.generate(what);  // nothing there yet
  served.model
      .async_register_prefix(one, {.tokens = {what.tokens.begin(), what.tokens.end() - 2}},
                             asio::use_future)
      .get();
  served.generate(what);
  served.model.async_register_prefix(other, {.tokens = {7, 8, 9}}, asio::use_future).get();
  what.pool = other;
  served.generate(what);
  const PoolLookups found = served.model.metrics()[0].pool;
  EXPECT_EQ(found.hits, 1u);
  EXPECT_EQ(found.misses, 2u);
  EXPECT_EQ(found.tokens_saved, 3u);
  EXPECT_EQ(one.statistics().misses + other.statistics().misses, 2u);
}

// ---- The page ----------------------------------------------------------------------------------

// By name with labels, as the format has it. Each line is checked against the format.
std::map<std::string, double> samples_of(const std::string& page) {
  static const std::regex kComment(
      R"(# (HELP tinyloop_[a-z_]+ [A-Z].*|TYPE tinyloop_[a-z_]+ (counter|gauge|histogram)))");
  static const std::regex kSample(
      R"re(tinyloop_[a-z_]+\{model="([^"\\\n]|\\[\\"n])*",replica="[0-9]+"(,[a-z]+="[^"\\\n]*")?\} [0-9.e+-]+)re");
  std::map<std::string, double> samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] == '#') {
      EXPECT_TRUE(std::regex_match(line, kComment)) << line;
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, kSample)) << line;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space))).second)
        << "twice: " << line;
  }
  EXPECT_EQ(page.back(), '\n');
  return samples;
}

TEST(Prometheus, ThePageSaysWhatTheMetricsSay) {
  const ServedModel served;
  served.generate(request(4));
  Metrics a = served.model.metrics()[0], b = a;
  a.model = "a";
  b.model = "b \"quoted\" \\ and\nbroken";
  b.statistics.generated_tokens = 18446744073709551615u;
  const std::vector<Metrics> both{a, b};
  const std::string page = prometheus_text(both);
  const auto samples = samples_of(page);
  EXPECT_EQ(samples.at("tinyloop_tokens_generated_total{model=\"a\",replica=\"0\"}"), 4);
  EXPECT_NE(page.find("tinyloop_tokens_generated_total{model=\"b \\\"quoted\\\" \\\\ "
                      "and\\nbroken\",replica=\"0\"} "
                      "18446744073709551615\n"),
            std::string::npos);
  EXPECT_EQ(
      samples.at("tinyloop_requests_completed_total{model=\"a\",replica=\"0\",outcome=\"ok\"}"), 1);
  EXPECT_EQ(samples.at("tinyloop_replica_state{model=\"a\",replica=\"0\",state=\"serving\"}"), 1);
  EXPECT_EQ(samples.at("tinyloop_replica_state{model=\"a\",replica=\"0\",state=\"failed\"}"), 0);
  EXPECT_EQ(samples.at("tinyloop_memory_bytes{model=\"a\",replica=\"0\",use=\"weights\"}"),
            double(a.memory.weights));
  EXPECT_EQ(samples.at("tinyloop_token_interval_seconds_count{model=\"a\",replica=\"0\"}"), 3);
  EXPECT_EQ(
      samples.at("tinyloop_token_interval_seconds_bucket{model=\"a\",replica=\"0\",le=\"+Inf\"}"),
      3);
  std::map<double, double> buckets;  // by upper bound
  const std::string bucket =
      "tinyloop_token_interval_seconds_bucket{model=\"a\",replica=\"0\",le=\"";
  for (const auto& [name, value] : samples) {
    if (name.rfind(bucket, 0) == 0) buckets[std::stod(name.substr(bucket.size()))] = value;
  }
  ASSERT_EQ(buckets.size(), a.token_interval_s.bounds.size() + 1);
  double before = 0;
  for (const double bound : a.token_interval_s.bounds) {
    ASSERT_EQ(buckets.count(bound), 1u) << bound;
    EXPECT_GE(buckets[bound], before);
    before = buckets[bound];
  }
}

TEST(Prometheus, EachFamilyIsDeclaredOnceAndBeforeItsSamples) {
  const std::vector<Metrics> models(2);
  std::istringstream lines(prometheus_text(models));
  std::set<std::string> declared;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, kind, name;
    words >> mark;
    if (mark == "#") {
      words >> kind >> name;
      if (kind == "HELP") {
        EXPECT_TRUE(declared.insert(name).second) << name;
        family = name;
      }
      EXPECT_EQ(name, family);
    } else {
      EXPECT_EQ(line.rfind(family, 0), 0u) << line;
    }
  }
  EXPECT_GT(declared.size(), 25u);
  EXPECT_EQ(prometheus_text({}).find("tinyloop_uptime_seconds{"), std::string::npos);
}

}  // namespace
}  // namespace tinyloop::testing
