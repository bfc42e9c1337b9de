import type { Progress } from "../../../shared/queue/operate.ts";
import { systemClock } from "../../../shared/time/clock.ts";

const BAR_CELLS = 30;
const REDRAW_MS = 100;

/** A progress bar on one line of the screen. `end` takes it off. */
export function createProgressBar(write: (text: string) => void, clock = systemClock) {
  const startedAt = clock();
  let drawnAt = 0;
  return {
    update({ done, left, total }: Progress): void {
      const now = clock();
      const ended = done + left;
      if (now - drawnAt < REDRAW_MS && ended < total) return;
      drawnAt = now;
      const share = ended / total;
      const full = Math.floor(share * BAR_CELLS);
      const bar = `[${"#".repeat(full)}${".".repeat(BAR_CELLS - full)}] ${Math.floor(share * 100)} %`;
      const rate = Math.round((ended * 1000) / Math.max(1, now - startedAt));
      write(`\r\x1b[K${bar} ${ended}/${total} ${rate}/s`);
    },
    end(): void {
      if (drawnAt !== 0) write("\r\x1b[K");
    },
  };
}
