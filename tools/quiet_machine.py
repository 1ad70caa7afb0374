"""What else runs on this machine, and how fast its cores are: whether a measurement can be kept."""

import resource
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# A chain of additions, each of which needs the one before: one a cycle on every current core.
CLOCK_SOURCE = r"""
#include <stdio.h>
#include <time.h>
/* The thread's own time: others may use the core meanwhile. */
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
int main(void) {
  const long rounds = 1000000;
  double best = 0;
  for (int attempt = 0; attempt < 30; ++attempt) {
    unsigned long x = 1, step = 3;
    const double begin = seconds();
    for (long i = 0; i < rounds; ++i) {
#define ADD __asm__ volatile(INSTRUCTION : "+r"(x) : "r"(step));
#define ADD4 ADD ADD ADD ADD
      ADD4 ADD4 ADD4 ADD4
    }
    const double ghz = (double)rounds * 16 / (seconds() - begin) * 1e-9;
    if (ghz > best) best = ghz;
  }
  printf("%.3f\n", best);
  return 0;
}
"""
ADDITIONS = {"x86_64": "add %1, %0", "aarch64": "add %0, %0, %1"}


def clock_meter(folder: Path, machine: str) -> Path:
    """Compiles the program that prints a core's clock in GHz."""
    if machine not in ADDITIONS:
        raise OSError(f"machine {machine}: no clock meter, allowed: {', '.join(ADDITIONS)}")
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "clock_meter"
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write(CLOCK_SOURCE)
        source.flush()
        compiler = shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-O2", f'-DINSTRUCTION="{ADDITIONS[machine]}"', source.name, "-o",
                        program], check=True)
    return program


def clock_ghz(program: Path) -> float:
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since the boot, over all cores."""
    busy: float
    total: float
    own: float  # this process and the children it has waited for

    @staticmethod
    def now() -> "CpuTimes":
        # user nice system idle iowait irq softirq steal, in hundredths; guest time is in user.
        ticks = [int(field) / 100 for field in
                 Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(use.ru_utime + use.ru_stime for use in uses)
        return CpuTimes(sum(ticks) - ticks[3] - ticks[4], sum(ticks), own)


@dataclass(frozen=True)
class Load:
    """What ran between two moments."""
    wall_s: float
    own_cpu_s: float
    foreign_share: float  # CPU of other processes, and steal, as a part of all cores' time


class LoadMeter:
    """From its creation on. Children count as ours once they have been waited for."""

    def __init__(self):
        self.begin, self.times = time.monotonic(), CpuTimes.now()

    def read(self) -> Load:
        now = CpuTimes.now()
        own = now.own - self.times.own
        foreign = max(0.0, now.busy - self.times.busy - own)
        total = max(now.total - self.times.total, 0.01)
        return Load(time.monotonic() - self.begin, own, foreign / total)


def wait_until_quiet(highest_share: float, patience_s: float) -> bool:
    """Returns as soon as others take no more than that: true; or false when patience ends."""
    end = time.monotonic() + patience_s
    while True:
        meter = LoadMeter()
        time.sleep(0.5)
        if meter.read().foreign_share <= highest_share:
            return True
        if time.monotonic() >= end:
            return False
