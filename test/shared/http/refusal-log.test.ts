import { expect, test, vi } from "vitest";
import { createRefusalLog } from "../../../shared/http/refusal-log.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { recordingLog } from "../../support/recording-log.ts";

const rejected = (reason: string) => new AppError("payment.rejected", { reason });

test("each code has at most one log line per second, and the counts of its lines add up to all refusals", () => {
  vi.useFakeTimers();
  try {
    const log = recordingLog();
    const refusals = createRefusalLog(log, "payment.refused");
    for (let each = 1; each <= 1000; each++) refusals.note(rejected(`no ${each}`), { payer: `0x${each}` });
    refusals.note(new AppError("payment.unavailable", { reason: "down" }), {});
    const logged = () => log.events.map(({ fields }) => [fields["code"], fields["times"], fields["reason"]]);
    expect(logged()).toEqual([
      ["payment.rejected", 1, "no 1"],
      ["payment.unavailable", 1, "down"],
    ]);
    vi.advanceTimersByTime(1000);
    expect(logged().slice(2)).toEqual([["payment.rejected", 999, "no 1000"]]);
    vi.advanceTimersByTime(5000);
    expect(logged()).toHaveLength(3);
    refusals.note(rejected("again"), {});
    refusals.note(rejected("and again"), {});
    refusals.flush();
    expect(logged().slice(3)).toEqual([
      ["payment.rejected", 1, "again"],
      ["payment.rejected", 1, "and again"],
    ]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
