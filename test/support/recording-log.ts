import type { Fields, Logger } from "../../shared/platform/log/logger.ts";

export type RecordingLog = Logger & { events: { event: string; fields: Fields }[]; text(): string };

/** Records every event, for tests that check what was logged and what was not. */
export function recordingLog(): RecordingLog {
  const events: RecordingLog["events"] = [];
  const record = (event: string, fields: Fields = {}) => void events.push({ event, fields });
  return { events, info: record, warn: record, error: record, text: () => JSON.stringify(events) };
}
