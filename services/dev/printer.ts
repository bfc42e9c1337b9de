import { createPrettyLine } from "../../shared/log/pretty-line.ts";

/** Passes a part's lines on: as they are, or, for a terminal, readable and with the part's name before them. */
export function createPrinter(pretty: boolean, print: (line: string) => void) {
  if (!pretty) return () => print;
  const toText = createPrettyLine({ colour: true });
  return (part: string) => (line: string) => print(`${part.padEnd(9)} ${toText(line)}`);
}
