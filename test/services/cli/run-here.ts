import { CommanderError } from "commander";
import { buildProgram } from "../../../services/cli/program.ts";
import type { Surroundings } from "../../../services/cli/program-deps.ts";
import type { Terminal } from "../../../services/cli/terminal.ts";
import type { Postern } from "../../fixtures/postern.ts";

/** Receives each line of stdout and stderr as it is printed. */
type OnLine = (line: string) => void;

type RanHere = { code: number | undefined; stdout: string; stderr: string };

/**
 * Runs the program in this process, which takes a tenth of the time of a separate one. It starts no service.
 * test/package/install.long.test.ts runs each command as a process.
 */
export async function runHere(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  terminal: Partial<Terminal> = {},
  onLine: OnLine = () => {},
): Promise<RanHere> {
  const said: RanHere = { code: undefined, stdout: "", stderr: "" };
  const take = (from: "stdout" | "stderr") => (text: string) => {
    said[from] += text;
    for (const line of text.split("\n")) if (line !== "") onLine(line);
  };
  const start = async (): Promise<never> => {
    throw new Error(`a service is started by ${args.join(" ")}`);
  };
  const deps: Surroundings = {
    version: "0.0.0",
    env,
    services: {
      ...{ webhooks: start, x402: start, pricing: start, producer: start },
      ...{ runner: start, operator: start, devnet: start, dev: start },
    },
    terminal: {
      columns: undefined,
      colours: { stdout: false, stderr: false },
      drawsProgress: false,
      redraw() {},
      canAsk: false,
      ask: async () => "",
      prompt: async () => undefined,
      writeBytes(bytes) {
        said.stdout += Buffer.from(bytes).toString();
      },
      ...terminal,
    },
    print: take("stdout"),
    printError: take("stderr"),
    exitWith(code) {
      said.code = code;
    },
  };
  try {
    await buildProgram(deps).parseAsync([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
  }
  return said;
}

/** Receives lines of a program in this process, and interrupts it at a line like this, as Ctrl-C does. */
export function interruptingAt(when: RegExp): OnLine {
  let interrupted = false;
  return (line) => {
    if (interrupted || !when.test(line)) return;
    interrupted = true;
    process.emit("SIGINT", "SIGINT");
  };
}

/** Runs commands in this process with the configuration of `postern`. */
export function runHereWith(postern: Pick<Postern, "configDir">) {
  type More = [env?: NodeJS.ProcessEnv, terminal?: Partial<Terminal>, onLine?: OnLine];
  return (args: readonly string[], ...more: More) =>
    runHere([...args, "--config-dir", postern.configDir], ...more);
}
