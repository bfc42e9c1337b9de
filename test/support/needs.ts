import { spawnSync } from "node:child_process";
import { delimiter } from "node:path";
import { findProgram, installPackages } from "../../shared/dev/find-program.ts";
import { UNPACKED_BIN, unpackPackages } from "./unpack-packages.ts";

declare module "vitest" {
  interface TaskMeta {
    /** Why the test is skipped, and the command that enables it. */
    skipReason?: string;
  }
}

type Program = {
  /** Names under which it is found on the PATH. */
  names: readonly string[];
  /** Debian's packages, which a run installs. Without them people must install the program. */
  debian?: readonly string[];
  /** Debian's packages of a server, which a run unpacks beside the npm packages. */
  unpacked?: readonly string[];
  /** Command for people where apt-get cannot install it. */
  otherwise: string;
  /** Whether the program that was found can do what the tests ask of it. */
  isUsable?: (path: string) => boolean;
  /** Its tests may be skipped with CI=true too. */
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

/** The path of a program that `needs` was asked for. */
export function pathOf(name: ProgramName): string {
  const path = locate(PROGRAMS[name], process.env);
  if (path === undefined) throw new Error(whyMissing(name, process.env));
  return path;
}

type Skip = { skip?: true; meta?: { skipReason: string } };

/**
 * Options of a test, or of a suite, that needs these programs. Where one is missing it is skipped, and the end of the run
 * names it with the command that enables it. Throws with CI=true, so that nothing is skipped there.
 */
export function needs(...names: readonly ProgramName[]): Skip {
  const missing = names.find((name) => isMissing(PROGRAMS[name], process.env));
  if (missing === undefined) return {};
  const skipReason = whyMissing(missing, process.env);
  const { optionalInCi }: Program = PROGRAMS[missing];
  if (process.env["CI"] === "true" && !optionalInCi) throw new Error(`CI skips no test. ${skipReason}`);
  return { skip: true, meta: { skipReason } };
}

/** Installs the programs that a run may install and that are missing. `needs` then says whether it worked. */
export function installMissing(env: NodeJS.ProcessEnv): void {
  const missing = Object.values<Program>(PROGRAMS).filter((program) => isMissing(program, env));
  installPackages(
    missing.flatMap(({ debian = [] }) => debian),
    env,
  );
  unpackPackages([...new Set(missing.flatMap(({ unpacked = [] }) => unpacked))], env);
}

function locate({ names }: Program, env: NodeJS.ProcessEnv): string | undefined {
  // Debian installs nginx in a folder that is on root's PATH only.
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
