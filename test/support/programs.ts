import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the bundled programs. */
    programs: string;
  }
}

/** Sources of the tests that run as programs, or are imported by one. The build has none of them. */
export const PROGRAMS = {
  heap: fileURLToPath(new URL("../../bench/processes/heap.ts", import.meta.url)),
  "effect-runner": fileURLToPath(new URL("effect-runner.ts", import.meta.url)),
  "traced-runner": fileURLToPath(new URL("../services/runner/traced-runner.ts", import.meta.url)),
  "pino-logger": fileURLToPath(new URL("../../shared/platform/log/pino-logger.ts", import.meta.url)),
};

type Program = keyof typeof PROGRAMS;

/** The bundled file, which starts in a third of the time that its source takes. */
export const bundled = (program: Program): string => join(inject("programs"), `${program}.js`);

/** Node's arguments to run it. */
export const programEntry = (program: Program): string[] => ["--enable-source-maps", bundled(program)];
