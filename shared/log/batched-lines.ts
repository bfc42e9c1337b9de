/** Where lines go, many in one write. */
type Sink = { write(text: string): unknown; flushSync(): void };

export type BatchedLines = Sink & { write(line: string): void };

const GATHER_MS = 20;

/** Gathers lines for a moment, so that under load one write, and one system call, takes many of them. */
export function batchedLines(sink: Sink): BatchedLines {
  let gathered = "";
  let timer: NodeJS.Timeout | undefined;
  const pass = (): void => {
    timer = undefined;
    if (gathered === "") return;
    sink.write(gathered);
    gathered = "";
  };
  return {
    write(line) {
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    flushSync() {
      clearTimeout(timer);
      pass();
      sink.flushSync();
    },
  };
}
