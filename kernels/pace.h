// How fast a device goes, for estimates of what a pass takes. Nothing that is computed depends on
// it, only what is computed together: ratios matter, not times.
#pragma once

namespace tinyloop::kernels {

struct Pace {
  double weight_bytes_per_s = 0;   // weights of a pass, read once for all its rows
  double multiply_adds_per_s = 0;  // in the products of a pass of some tens of rows
  double s_per_layer = 0;          // what its kernels wait for one another, however few the rows
  double s_per_exit = 0;           // where rows leave: logits or tokens go to the host, and back
};

}  // namespace tinyloop::kernels
