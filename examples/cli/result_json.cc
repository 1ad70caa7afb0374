#include "result_json.h"

namespace tinyloop::cli {

namespace {

Json token_json(const TokenLogprob& token) {
  return {{"token", token.token}, {"logprob", token.logprob}};
}

Json logprobs_json(const std::vector<PositionLogprobs>& positions) {
  Json list = Json::array();
  for (const PositionLogprobs& position : positions) {
    Json entry = token_json(position.chosen);
    entry["top"] = Json::array();
    for (const TokenLogprob& token : position.top) entry["top"].push_back(token_json(token));
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Json timings_json(const Timings& timings) {
  return {{"queue_us", timings.queue_us},
          {"prefill_us", timings.prefill_us},
          {"decode_us", timings.decode_us}};
}

Json generate_json(const GenerateResult& result) {
  const auto middle = result.tokens.begin() + static_cast<std::ptrdiff_t>(result.prompt_tokens);
  Json json;
  json["prompt_tokens"] = std::vector<int32_t>(result.tokens.begin(), middle);
  json["tokens"] = std::vector<int32_t>(middle, result.tokens.end());
  json["text"] = result.text;
  json["finish_reason"] = to_string(result.finish_reason);
  json["loops"] = result.loops;
  json["timings"] = timings_json(result.timings);
  if (!result.logprobs.empty()) json["logprobs"] = logprobs_json(result.logprobs);
  return json;
}

Json chunk_json(const StreamChunk& chunk) {
  Json json;
  json["tokens"] = chunk.tokens;
  json["text"] = chunk.text;
  if (!chunk.logprobs.empty()) json["logprobs"] = logprobs_json(chunk.logprobs);
  if (!chunk.summary) return json;
  const StreamChunk::Summary& summary = *chunk.summary;
  json["summary"] = {{"finish_reason", to_string(summary.finish_reason)},
                     {"prompt_tokens", summary.prompt_tokens},
                     {"generated_tokens", summary.generated_tokens},
                     {"loops", summary.loops},
                     {"timings", timings_json(summary.timings)}};
  return json;
}

}  // namespace tinyloop::cli
