import { isColorSupported, prettyFactory } from "pino-pretty";

/** A JSON line of one of our processes as a line for people; anything else comes back as it is. NO_COLOR takes the colours away. */
export function createPrettyLine({ colour }: { colour: boolean }): (line: string) => string {
  const pretty = prettyFactory({
    colorize: colour && isColorSupported,
    ignore: "pid,hostname,service",
    messageKey: "event",
    translateTime: "HH:MM:ss.l",
    singleLine: true,
  });
  return (line) => (line.startsWith("{") ? pretty(line).trimEnd() : line);
}
