export type Fields = Readonly<Record<string, unknown>>;

/** One event per outcome, named in the past tense with dots: `webhook.accepted`, `call.failed`. */
export type Logger = {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
};

export const silentLogger: Logger = { info() {}, warn() {}, error() {} };
