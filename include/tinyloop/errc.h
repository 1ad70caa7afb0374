// The error conditions of TinyLoop. This header needs nothing but the language: every layer of the
// library uses it. `tinyloop/error.h` adds the boost::system category around it.
#pragma once

namespace tinyloop {

// Values are stable: they may be logged, stored and compared across versions. docs/errors.md says
// for each one who can get it, and whether trying again can help.
enum class errc : int {
  ok = 0,
  invalid_argument =
      1,         // the request breaks a documented bound; the message names field, value, bound
  io_error = 2,  // the model file could not be opened, read or mapped
  bad_model_file = 3,     // the file contradicts its own format, or is cut short
  unsupported_model = 4,  // a valid file that asks for something this version does not compute
  out_of_memory = 5,      // memory or budget is missing, and waiting would not help
  overloaded = 6,         // queue or budget is exhausted for now; try later, or ask to wait
  deadline_exceeded = 7,  // the deadline passed before the request had begun
  operation_aborted =
      8,                // cancelled before it had begun; compares equal to asio's operation_aborted
  shutdown = 9,         // the engine or the model is shutting down
  model_closed = 10,    // the model was unloaded, or the Model object is empty
  replica_failed = 11,  // the replica hit an internal or device error and takes no more work
  stream_busy = 12,     // a second async_next while one is outstanding on the same stream
  end_of_stream = 13,   // every token has been delivered; compares equal to asio's eof
  internal = 14,        // an invariant of ours did not hold: a bug in TinyLoop
  wrong_model = 15,     // a handle was used with another model than the one that made it
  handle_lost = 16,     // the handle's state went with the replica that held it, or was released
  loop_mismatch = 17,   // a prefix was computed at another depth than the request asks for
};

}  // namespace tinyloop
