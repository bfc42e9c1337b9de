import { isColorSupported, prettyFactory } from "pino-pretty";

/**
 * Creates the function that formats a JSON log line of Postern's processes for people. Other lines are returned
 * unchanged. NO_COLOR disables colours.
 */
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
