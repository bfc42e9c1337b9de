import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** Folder of the bundled programs. */
    programs: string;
  }
}

/** Test sources that run as programs, or that a program imports. The build does not contain them. */
export const PROGRAMS = {
  heap: fileURLToPath(new URL("../../bench/processes/heap.ts", import.meta.url)),
  "effect-runner": fileURLToPath(new URL("effect-runner.ts", import.meta.url)),
  "traced-runner": fileURLToPath(new URL("../services/runner/traced-runner.ts", import.meta.url)),
  "pino-logger": fileURLToPath(new URL("../../shared/platform/log/pino-logger.ts", import.meta.url)),
};

type Program = keyof typeof PROGRAMS;

/** Returns the bundled file, which starts in a third of the time of its source. */
export const bundled = (program: Program): string => join(inject("programs"), `${program}.js`);

/** Returns the arguments of Node that run the bundled file. */
export const programEntry = (program: Program): string[] => ["--enable-source-maps", bundled(program)];
