import type { Progress } from "../../../shared/queue/operate.ts";
import { type Clock, systemClock } from "../../../shared/time/clock.ts";

export type ProgressBar = {
  update(progress: Progress): void;
  /** Takes the bar off the screen. */
  end(): void;
};

const BAR_CELLS = 30;
const REDRAW_MS = 100;

/** One line on a screen, drawn over itself. */
export function createProgressBar(write: (text: string) => void, clock: Clock = systemClock): ProgressBar {
  const startedAt = clock();
  let drawnAt = 0;
  return {
    update(progress) {
      const now = clock();
      const ended = progress.done + progress.left;
      if (now - drawnAt < REDRAW_MS && ended < progress.total) return;
      drawnAt = now;
      write(
        `\r\x1b[K${bar(ended / progress.total)} ${ended}/${progress.total} ${rate(ended, now - startedAt)}`,
      );
    },
    end() {
      if (drawnAt !== 0) write("\r\x1b[K");
    },
  };
}

function bar(share: number): string {
  const full = Math.floor(share * BAR_CELLS);
  return `[${"#".repeat(full)}${".".repeat(BAR_CELLS - full)}] ${Math.floor(share * 100)} %`;
}

function rate(ended: number, elapsedMs: number): string {
  return `${Math.round((ended * 1000) / Math.max(1, elapsedMs))}/s`;
}
