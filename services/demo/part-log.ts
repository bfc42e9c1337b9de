import { EventLog, type LoggedEvent, type Matches } from "../../shared/dev/process.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";

/** What a part of Postern logged, over all its restarts. */
export type PartLog = {
  take(line: string): void;
  /** Oldest first. */
  named(event: string): LoggedEvent[];
  /** The first match, logged already or yet to come; rejects, saying what was awaited, after the deadline. */
  first(what: string, matches: Matches): Promise<LoggedEvent>;
  /** The first event of that name for each of these calls. */
  forEach(event: string, callIds: readonly string[]): Promise<LoggedEvent[]>;
};

export function createPartLog(): PartLog {
  const log = new EventLog();
  const never = new Promise<never>(() => {});
  const first = (what: string, matches: Matches) => beforeDeadline(what, log.first(matches, never));
  return {
    take: (line) => log.take(line),
    named: (event) => log.named(event),
    first,
    forEach: (event, callIds) =>
      Promise.all(
        callIds.map((id) =>
          first(`${event} of ${id} in the log`, (e) => e.event === event && e["callId"] === id),
        ),
      ),
  };
}
