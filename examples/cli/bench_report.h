// What `tinyloop bench` prints: tables, or a line of JSON for each figure. Each is written as soon
// as it is there, so that a run that is cut short keeps what it has measured.
#pragma once

#include "bench_arguments.h"
#include "bench_runs.h"
#include "bench_serving.h"
#include "output.h"
#include "tinyloop/model.h"

namespace tinyloop::cli {

class BenchReport {
 public:
  // Writes the first line: the model, the device, and the options that decide the figures.
  BenchReport(const BenchArguments& arguments, const ModelOptions& options, const ModelInfo& info);

  void add(const PrefillFigure& figure);
  void add(const DecodeFigure& figure);
  void add(const ServingFigure& figure);

 private:
  // Above the first row of a table.
  void head(const char* table, const char* columns);

  bool json_;
  const char* table_ = "";  // the one that the last row was of
};

}  // namespace tinyloop::cli
