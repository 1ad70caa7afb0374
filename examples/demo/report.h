// The table at the end of the demo.
#pragma once

#include <tinyloop/reports.h>

#include "run.h"

namespace demo {

void print_tales(const Snapshot& result);
void print_comparison(const Run& alone, const Run& together);
void print_memory(const tinyloop::MemoryReport& memory);

}  // namespace demo
