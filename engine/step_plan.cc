#include "engine/step_plan.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace tinyloop::engine {

namespace {

using nlohmann::json;

// The one list of fields, for printing and parsing.
template <class Chunk, class Visit>
void visit_chunk(Chunk& chunk, Visit visit) {
  visit("sequence", chunk.sequence);
  visit("rows", chunk.rows);
  visit("first_position", chunk.first_position);
  visit("depth", chunk.depth);
  visit("iteration", chunk.iteration);
  visit("window", chunk.window);
  visit("enters", chunk.enters);
  visit("restores", chunk.restores);
  visit("leaves", chunk.leaves);
  visit("coda", chunk.coda);
  visit("prefix", chunk.prefix);
  visit("keeps", chunk.keeps);
  visit("logit_rows", chunk.logit_rows);
  visit("first_row", chunk.first_row);
  visit("pages", chunk.pages);
  visit("prelude_table", chunk.prelude_table);
  visit("coda_table", chunk.coda_table);
  visit("loop_table", chunk.loop_table);
}

template <class Copy, class Visit>
void visit_copy(Copy& copy, Visit visit) {
  visit("group", copy.group);
  visit("from", copy.from);
  visit("to", copy.to);
}

template <class Plan, class Visit>
void visit_plan(Plan& plan, Visit visit) {
  visit("pass", plan.pass);
  visit("copies", plan.copies);
  visit("chunks", plan.chunks);
  visit("tokens", plan.tokens);
  visit("slots", plan.slots);
  visit("prelude_pages", plan.prelude_pages);
  visit("coda_pages", plan.coda_pages);
  visit("loop_pages", plan.loop_pages);
}

void print(json& out, const ChunkStep& chunk) {
  visit_chunk(chunk, [&](const char* key, const auto& value) { out[key] = value; });
}
void print(json& out, const PageCopy& copy) {
  visit_copy(copy, [&](const char* key, const auto& value) { out[key] = value; });
}
template <class T>
void print(json& out, const T& value) {
  out = value;
}
template <class T>
void print(json& out, const std::vector<T>& values) {
  out = json::array();
  for (const T& value : values) print(out.emplace_back(), value);
}

[[noreturn]] void fail(const char* key, const std::string& what) {
  throw base::Failure(errc::invalid_argument, "step plan: " + std::string(key) + ": " + what);
}

// json's own conversion of a number that does not fit is silent, or undefined.
template <class T>
void parse(const json& in, const char* key, T& value) {
  const bool fits = in.is_number_unsigned()
                        ? std::in_range<T>(in.get<uint64_t>())
                        : in.is_number_integer() && std::in_range<T>(in.get<int64_t>());
  if (!fits) fail(key, "not an integer of " + std::to_string(8 * sizeof(T)) + " bits");
  value = in.get<T>();
}
void parse(const json& in, const char* /*key*/, bool& value) {
  in.get_to(value);
}
void parse(const json& in, const char* /*key*/, ChunkStep& chunk) {
  visit_chunk(chunk, [&](const char* key, auto& value) { parse(in.at(key), key, value); });
}
void parse(const json& in, const char* /*key*/, PageCopy& copy) {
  visit_copy(copy, [&](const char* key, auto& value) { parse(in.at(key), key, value); });
}
template <class T>
void parse(const json& in, const char* key, std::vector<T>& values) {
  if (!in.is_array()) fail(key, "not a list");
  for (const json& item : in) parse(item, key, values.emplace_back());
}

}  // namespace

void StepPlan::clear() {
  copies.clear();
  chunks.clear();
  tokens.clear();
  slots.clear();
  prelude_pages.clear();
  coda_pages.clear();
  loop_pages.clear();
}

std::string print_plan(const StepPlan& plan) {
  json out;
  visit_plan(plan, [&](const char* key, const auto& value) { print(out[key], value); });
  return out.dump();
}

base::Result<StepPlan> parse_plan(const std::string& line) try {
  const json in = json::parse(line);
  StepPlan plan;
  visit_plan(plan, [&](const char* key, auto& value) { parse(in.at(key), key, value); });
  return plan;
} catch (const nlohmann::json::exception& e) {
  return base::Error{errc::invalid_argument, std::string("step plan: ") + e.what()};
} catch (const base::Failure& failure) {
  return failure.error();
}

}  // namespace tinyloop::engine
