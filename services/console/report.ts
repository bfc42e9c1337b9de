import type { File } from "../../shared/console/contract/operation.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { createConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";

/** A report is whole in memory while it is sent. `postern refunds report` on Redis has no such limit. */
const BYTES_MAX = 32 * 1024 * 1024;

const reports = createConcurrencyLimit({ max: 1, what: "reports of refunds", code: "request.rate_limited" });

/** Reads a report whole before its first byte is sent: what fails meanwhile is then a refusal, and no part is taken for all. */
export function wholeReport(read: () => Promise<File>): Promise<File> {
  return reports.within(async () => {
    const { name, pieces } = await read();
    const whole: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of pieces) {
      whole.push(piece);
      bytes += piece.length;
      if (bytes > BYTES_MAX) throw tooLarge();
    }
    return { name, pieces: whole };
  });
}

function tooLarge(): AppError {
  const detail = "the report is larger than 32 MiB; run postern refunds report without --operator";
  return AppError.public("refund.report_too_large", detail);
}
