import type { Chain } from "../../../shared/chain/chain.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { within } from "../../../shared/platform/time/clock.ts";

const PACE = {
  /**
   * Interval of the checks while the contract matches the configuration. It must be checked again, because the contract behind a
   * proxy may change at any time.
   */
  everyMs: 600_000,
  /**
   * Interval of the checks while the contract does not match the configuration, or could not be read yet. Either may change soon.
   */
  soonMs: 10_000,
  /**
   * Limit on how long a starting gateway waits for the first check. A check makes several requests, and makes them twice if it
   * finds a problem.
   */
  firstMs: 15_000,
};

export type TokenWatch = {
  /** Differences between the token's configuration and its contract that the last check found. */
  problems(): readonly string[];
  /** Throws `payment.unavailable` unless a check has shown that the contract matches the configuration. */
  assertValid(): Promise<void>;
  /**
   * Starts the checks. Resolves once the first check has ended, but after `firstMs` at the latest. So a node that does not answer
   * does not delay the gateway's start further.
   */
  start(): Promise<void>;
  close(): void;
};

/**
 * Creates the checks that compare a token's configuration with its contract (`checkToken`). They run at the start and then every
 * ten minutes. If the token's node has not answered by the first payment in it, that payment waits for a check.
 */
export function createTokenWatch(token: AcceptedToken, chain: Chain, log: Logger, pace = PACE): TokenWatch {
  const name = { network: token.network, asset: token.asset, symbol: token.symbol };
  /** Undefined until the token's node has answered. */
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

  /** Starts a check, or joins the one in flight. */
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
    async assertValid() {
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
