// Everything of TinyLoop's asynchronous interface.
#pragma once

#include "tinyloop/engine.h"
#include "tinyloop/errc.h"
#include "tinyloop/error.h"
#include "tinyloop/generate.h"
#include "tinyloop/log.h"
#include "tinyloop/metrics.h"
#include "tinyloop/model.h"
#include "tinyloop/options.h"
#include "tinyloop/reports.h"
#include "tinyloop/shutdown.h"
#include "tinyloop/token_stream.h"
#include "tinyloop/tokenizer.h"
#include "tinyloop/trace.h"
