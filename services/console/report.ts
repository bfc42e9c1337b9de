import type { File } from "../../shared/console/contract/operation.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { createConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";

/**
 * Limit on the size of a report, because the console keeps the whole report in memory while it sends it. `postern
 * refunds report` without a console reads Redis directly and has no such limit.
 */
const BYTES_MAX = 32 * 1024 * 1024;

const reports = createConcurrencyLimit({ max: 1, what: "reports of refunds", code: "request.rate_limited" });

/**
 * Reads a report completely before its first byte is sent. So if a read fails, the client gets an error instead of a
 * part of the report.
 */
export function bufferReport(read: () => Promise<File>): Promise<File> {
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
