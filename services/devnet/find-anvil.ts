import { createRequire } from "node:module";
import { findProgram } from "../../shared/dev/find-program.ts";
import { AppError } from "../../shared/errors/app-error.ts";

/** The path of anvil: the one npm installs where it has a build for this machine, else from the PATH. Throws `start.program_missing`. */
export function findAnvil(env: NodeJS.ProcessEnv, packaged = packagedAnvil()): string {
  const path = packaged || findProgram(["anvil"], env);
  if (path !== undefined) return path;
  throw new AppError("start.program_missing", {
    reason: [
      "The devnet needs anvil, which is not installed. Install Foundry and run this again:",
      "  curl -L https://foundry.paradigm.xyz | bash",
      "  foundryup",
      "on Linux with an x64 processor, npm install does it (package @foundry-rs/anvil-linux-amd64)",
    ].join("\n"),
  });
}

function packagedAnvil(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve("@foundry-rs/anvil-linux-amd64/bin/anvil");
  } catch {
    return undefined;
  }
}
