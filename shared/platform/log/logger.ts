export type Fields = Readonly<Record<string, unknown>>;

/**
 * Logger for events that have happened, such as the outcome of a request. Their names are in the past tense with dots:
 * `webhook.accepted`, `call.failed`.
 */
export type Logger = {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
};

export const silentLogger: Logger = { info() {}, warn() {}, error() {} };
