// What the simulated device computes instead of numbers: one word a row, mixed so that it depends
// on everything that the row has met, and on the order. Fake backend and reference share these
// definitions and nothing else.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tinyloop::sim {

using Word = uint64_t;

// What nobody has written.
inline constexpr Word kPoison = 0xDEADDEADDEADDEADu;
// d_model of every simulated model: a row of so many floats begins with its word.
inline constexpr int32_t kWidth = 4;
inline constexpr int32_t kVocab = 24;

enum class Step : Word {
  embed = 1,
  norm,
  linear,
  rotate,
  attend,
  activate,
  add,
  scale,
  state,
  head
};

constexpr Word mix(Word a, Word b) {
  Word z = (a ^ (b * 0x9E3779B97F4A7C15u)) + 0x632BE59BD9B4E019u;
  z = (z ^ (z >> 31)) * 0xBF58476D1CE4E5B9u;
  return z ^ (z >> 29);
}
constexpr Word digest(Step step, std::initializer_list<Word> words) {
  Word sum = Word(step);
  for (const Word word : words) sum = mix(sum, word);
  return sum;
}

constexpr Word embed(Word table, int32_t token) {
  return digest(Step::embed, {table, Word(token)});
}
constexpr Word norm(Word weight, Word x) {
  return digest(Step::norm, {weight, x});
}
constexpr Word linear(Word matrix, Word x) {
  return digest(Step::linear, {matrix, x});
}
// Of two rows that lie side by side.
constexpr Word linear(Word matrix, Word x, Word beside) {
  return digest(Step::linear, {matrix, x, beside});
}
constexpr Word rotate(int32_t position, Word x) {
  return digest(Step::rotate, {Word(position), x});
}
// Attention: begins with the query and meets the visible positions in order.
constexpr Word attend(Word query) {
  return digest(Step::attend, {query});
}
constexpr Word meet(Word sum, Word key, Word value) {
  return mix(mix(sum, key), value);
}
constexpr Word activate(Word gate, Word up) {
  return digest(Step::activate, {gate, up});
}
constexpr Word add(Word y, Word x) {
  return digest(Step::add, {y, x});
}
constexpr Word scale_add(Word a, Word x, Word y) {
  return digest(Step::scale, {a, x, y});
}
constexpr Word initial_state(int32_t position) {
  return digest(Step::state, {Word(position)});
}
constexpr Word head(Word matrix, Word x) {
  return digest(Step::head, {matrix, x});
}
// 0 to below 4, exact in a float.
constexpr float logit(Word head, int32_t token) {
  return float(mix(head, Word(token)) >> 42) * 0x1p-20f;
}

}  // namespace tinyloop::sim
