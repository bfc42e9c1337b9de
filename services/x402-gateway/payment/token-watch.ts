import type { Chain } from "../../../shared/chain/chain.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { within } from "../../../shared/platform/time/clock.ts";

const PACE = {
  /** What is behind a proxy may become another contract at any time. */
  everyMs: 600_000,
  /** A token that is not as configured, or that nothing is known of, may soon be well. */
  soonMs: 10_000,
  /** Limit on how long a start waits for the first check: several questions, asked twice if it finds a problem. */
  firstMs: 15_000,
};

export type TokenWatch = {
  /** What is wrong with the token, as far as is known. */
  problems(): readonly string[];
  /** Throws `payment.unavailable` unless the token is known to be as configured. */
  assertSound(): Promise<void>;
  /** Begins to check, and resolves once the first check has ended, or after `firstMs`: a node that is away or slow delays no start. */
  start(): Promise<void>;
  close(): void;
};

/** Compares a token with its contract (`checkToken`): at the start, every ten minutes, and before its first payment is claimed. */
export function createTokenWatch(token: AcceptedToken, chain: Chain, log: Logger, pace = PACE): TokenWatch {
  const name = { network: token.network, asset: token.asset, symbol: token.symbol };
  /** Undefined as long as its node has not answered. */
  let problems: readonly string[] | undefined;
  let checking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function check(): Promise<void> {
    const found = await chain.check(token);
    const before = problems;
    problems = found.problems;
    if (before === undefined)
      for (const warning of found.warnings) log.warn("token.warning", { ...name, warning });
    if (String(before ?? "") === String(problems)) return;
    if (problems.length === 0) log.info("token.valid", name);
    else log.error("token.invalid", { ...name, problems });
  }

  /** All who ask while a check is under way share it. */
  function checkOnce(): Promise<void> {
    checking ??= check().finally(() => {
      checking = undefined;
    });
    return checking;
  }

  async function keepChecking(): Promise<void> {
    await checkOnce().catch((error) => {
      if (problems === undefined) log.warn("token.unchecked", { ...name, reason: messageOf(error) });
    });
    const isWell = problems?.length === 0;
    if (!isClosed) timer = setTimeout(keepChecking, isWell ? pace.everyMs : pace.soonMs);
  }

  return {
    problems: () => problems ?? [],
    async assertSound() {
      if (problems === undefined) await checkOnce();
      if (problems?.length === 0) return;
      throw new AppError("payment.unavailable", { reason: `${token.symbol}: ${problems?.join("; ")}` });
    },
    start: async () => void (await within(pace.firstMs, keepChecking())),
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
