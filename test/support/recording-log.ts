import type { Fields, Logger } from "../../shared/platform/log/logger.ts";

export type RecordingLog = Logger & { events: { event: string; fields: Fields }[]; text(): string };

/** Remembers every event, for tests that assert on what was (and was not) logged. */
export function recordingLog(): RecordingLog {
  const events: RecordingLog["events"] = [];
  const record = (event: string, fields: Fields = {}) => void events.push({ event, fields });
  return { events, info: record, warn: record, error: record, text: () => JSON.stringify(events) };
}
