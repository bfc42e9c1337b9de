import { spawnSync } from "node:child_process";
import { delimiter } from "node:path";
import { findProgram, installPackages } from "../../shared/dev/find-program.ts";
import { UNPACKED_BIN, unpackPackages } from "./unpack-packages.ts";

declare module "vitest" {
  interface TaskMeta {
    /** Says why the test is skipped, and which command enables it. */
    skipReason?: string;
  }
}

type Program = {
  /** Names of the program on the PATH. */
  names: readonly string[];
  /** Debian packages that a run installs. Without them users must install the program. */
  debian?: readonly string[];
  /** Debian packages of a server. A run only unpacks them, beside the npm packages (unpack-packages.ts). */
  unpacked?: readonly string[];
  /** Command for users whose system has no apt-get. */
  otherwise: string;
  /** Returns whether the found program can do what the tests need. */
  isUsable?: (path: string) => boolean;
  /** True if its tests may be skipped even with CI=true. */
  optionalInCi?: true;
};

const succeeds = (command: string, args: readonly string[]) =>
  spawnSync(command, args, { stdio: "ignore" }).status === 0;

/** Programs that tests need besides Redis, each with the command that installs it. */
const PROGRAMS = {
  chromium: {
    names: ["chromium", "chromium-browser", "google-chrome"],
    debian: ["chromium"],
    otherwise: "brew install --cask google-chrome",
  },
  nginx: { names: ["nginx"], debian: ["nginx"], otherwise: "brew install nginx" },
  prometheus: {
    names: ["prometheus"],
    unpacked: ["prometheus"],
    otherwise: "sudo apt-get install -y prometheus, or brew install prometheus",
  },
  promtool: {
    names: ["promtool"],
    unpacked: ["prometheus"],
    otherwise: "sudo apt-get install -y prometheus, or brew install prometheus",
  },
  haproxy: { names: ["haproxy"], debian: ["haproxy"], otherwise: "brew install haproxy" },
  caddy: { names: ["caddy"], debian: ["caddy"], otherwise: "brew install caddy" },
  curl: { names: ["curl"], debian: ["curl"], otherwise: "brew install curl" },
  openssl: { names: ["openssl"], debian: ["openssl"], otherwise: "brew install openssl" },
  python: {
    names: ["python3"],
    debian: ["python3", "python3-venv"],
    otherwise: "brew install python",
    isUsable: (path) => succeeds(path, ["-c", "import ensurepip, sqlite3, venv"]),
  },
  script: {
    names: ["script"],
    debian: ["bsdutils"],
    otherwise: "brew install util-linux",
    isUsable: (path) => /util-linux/.test(spawnSync(path, ["--version"]).stdout?.toString() ?? ""),
  },
  zsh: { names: ["zsh"], debian: ["zsh"], otherwise: "brew install zsh" },
  fish: { names: ["fish"], debian: ["fish"], otherwise: "brew install fish" },
  "systemd-analyze": {
    names: ["systemd-analyze"],
    debian: ["systemd"],
    otherwise: "use a Linux with systemd",
  },
  kustomize: { names: ["kustomize"], unpacked: ["kustomize"], otherwise: "brew install kustomize" },
  valkey: {
    names: ["valkey-server"],
    unpacked: ["valkey-server", "valkey-tools"],
    otherwise: "brew install valkey",
  },
  go: { names: ["go"], otherwise: "follow https://go.dev/doc/install" },
  rust: {
    names: ["cargo"],
    otherwise: "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh",
  },
  docker: {
    names: ["docker"],
    otherwise: "start the Docker daemon; https://docs.docker.com/engine/install installs it",
    isUsable: (path) => succeeds(path, ["info"]),
    optionalInCi: true,
  },
} as const satisfies Record<string, Program>;

export type ProgramName = keyof typeof PROGRAMS;

/** Returns the path of a program that was passed to `needs`. */
export function pathOf(name: ProgramName): string {
  const path = locate(PROGRAMS[name], process.env);
  if (path === undefined) throw new Error(whyMissing(name, process.env));
  return path;
}

type Skip = { skip?: true; meta?: { skipReason: string } };

/**
 * Returns the options of a test or suite that needs these programs. If one is missing, the test is skipped. The end of
 * the run names the test and the command that enables it. Throws with CI=true, so that nothing is skipped there.
 */
export function needs(...names: readonly ProgramName[]): Skip {
  const missing = names.find((name) => isMissing(PROGRAMS[name], process.env));
  if (missing === undefined) return {};
  const skipReason = whyMissing(missing, process.env);
  const { optionalInCi }: Program = PROGRAMS[missing];
  if (process.env["CI"] === "true" && !optionalInCi) throw new Error(`CI skips no test. ${skipReason}`);
  return { skip: true, meta: { skipReason } };
}

/** Installs missing programs that a run may install. `needs` then checks whether they exist. */
export function installMissing(env: NodeJS.ProcessEnv): void {
  const missing = Object.values<Program>(PROGRAMS).filter((program) => isMissing(program, env));
  installPackages(
    missing.flatMap(({ debian = [] }) => debian),
    env,
  );
  unpackPackages([...new Set(missing.flatMap(({ unpacked = [] }) => unpacked))], env);
}

function locate({ names }: Program, env: NodeJS.ProcessEnv): string | undefined {
  // Debian installs nginx in a folder that is only on root's PATH.
  return findProgram(names, { PATH: [env["PATH"], "/usr/sbin", UNPACKED_BIN].join(delimiter) });
}

function isMissing(program: Program, env: NodeJS.ProcessEnv): boolean {
  const path = locate(program, env);
  return path === undefined || program.isUsable?.(path) === false;
}

function whyMissing(name: ProgramName, env: NodeJS.ProcessEnv): string {
  const { debian, otherwise }: Program = PROGRAMS[name];
  const hasApt = debian !== undefined && findProgram(["apt-get"], env) !== undefined;
  return `No usable ${name}. Install it and run this again: ${hasApt ? `sudo apt-get install -y ${debian.join(" ")}` : otherwise}`;
}
