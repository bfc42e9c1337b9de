import { systemClock } from "../../../shared/platform/time/clock.ts";
import type { Progress } from "../../../shared/queue/operate.ts";
import { barOf } from "../bar.ts";
import type { ProgramDeps } from "../program-deps.ts";

type Shown = {
  update(progress: Progress): void;
  end(): void;
};

/** Tells how many calls of a run are done. */
type DoneText = (done: number, total: number) => string;

/**
 * Shows on stderr how far a run is: a bar on a screen; elsewhere a line for each tenth of a long run, and with -o json nothing,
 * since the outcome says all.
 */
export function createProgress(
  { terminal, note }: ProgramDeps,
  { json, quiet, doneText }: { json?: boolean; quiet?: boolean; doneText: DoneText },
): Shown {
  if (json || quiet) return { update() {}, end() {} };
  return terminal.drawsProgress ? createProgressBar(terminal.redraw) : createProgressLines(note, doneText);
}

const REDRAW_MS = 100;

/** A progress bar on one line of the screen. `end` takes it off. */
export function createProgressBar(redraw: (line: string) => void, clock = systemClock): Shown {
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

/** A run of fewer calls is over before anybody asks. */
const LONG = 100;

function createProgressLines(note: (text: string) => void, doneText: DoneText): Shown {
  let told = 0;
  return {
    update({ done, left, total }) {
      const tenth = Math.floor((10 * (done + left)) / total);
      if (total < LONG || tenth === told || tenth === 10) return;
      told = tenth;
      note(`${doneText(done, total)} (${10 * tenth} %)\n`);
    },
    end() {},
  };
}
