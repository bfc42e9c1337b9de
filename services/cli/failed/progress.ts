import { systemClock } from "../../../shared/platform/time/clock.ts";
import type { Progress } from "../../../shared/queue/operate.ts";
import { barOf } from "../bar.ts";
import type { ProgramDeps } from "../program-deps.ts";

type ProgressDisplay = {
  update(progress: Progress): void;
  end(): void;
};

/** Formats the number of calls that a bulk operation has processed. */
type DoneText = (done: number, total: number) => string;

/**
 * Shows the progress of a bulk operation on stderr. On a screen this is a bar. In a file or pipe it is one line for
 * each tenth of a long operation. With -o json or --quiet it shows nothing.
 */
export function createProgress(
  { terminal, note }: ProgramDeps,
  { json, quiet, doneText }: { json?: boolean; quiet?: boolean; doneText: DoneText },
): ProgressDisplay {
  if (json || quiet) return { update() {}, end() {} };
  return terminal.drawsProgress ? createProgressBar(terminal.redraw) : createProgressLines(note, doneText);
}

const REDRAW_MS = 100;

/** Draws a progress bar on one line of the screen. `end` erases the line. */
export function createProgressBar(redraw: (line: string) => void, clock = systemClock): ProgressDisplay {
  const startedAt = clock();
  let drawnAt = 0;
  return {
    update({ done, left, total }) {
      const now = clock();
      const ended = done + left;
      if (now - drawnAt < REDRAW_MS && ended < total) return;
      drawnAt = now;
      const rate = Math.round((ended * 1000) / Math.max(1, now - startedAt));
      redraw(`${barOf(ended / total)} ${ended}/${total} ${rate}/s`);
    },
    end() {
      if (drawnAt !== 0) redraw("");
    },
  };
}

/** Minimum number of calls for progress lines. A bulk operation with fewer calls ends soon anyway. */
const LONG_RUN_CALLS = 100;

/** Prints a line for each tenth of a long bulk operation. */
export function createProgressLines(note: (text: string) => void, doneText: DoneText): ProgressDisplay {
  let told = 0;
  return {
    update({ done, left, total }) {
      const tenth = Math.floor((10 * (done + left)) / total);
      if (total < LONG_RUN_CALLS || tenth === told || tenth === 10) return;
      told = tenth;
      note(`${doneText(done, total)} (${10 * tenth} %)\n`);
    },
    end() {},
  };
}
