import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { toIso } from "../platform/time/iso.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { logAudited } from "../redis/audit/audit.ts";
import type { Partition } from "../redis/partition.ts";
import { ALL_PENDING, createCheckRefunds, RefundCheck } from "./refund-check.ts";
import { RUN_STATES, type Run } from "./runs/run.ts";
import { createRunStore } from "./runs/store.ts";
import type { DoRun } from "./runs/worker.ts";
import type { TokenSource } from "./tokens.ts";
import {
  chooseTokens,
  createFindMatches,
  MatchOrder,
  matchSelection,
  TransferMatches,
} from "./transfer-matches.ts";
import { isoOrNull, isoTime } from "./view.ts";

const RunHead = z.object({
  id: z.string(),
  /** `cancelling`: it ends as soon as what is in hand is done. */
  state: z.enum([...RUN_STATES, "cancelling"]),
  by: z.string(),
  begun_at: isoTime,
  ended_at: isoTime.nullable(),
  /** Why it stopped. */
  failure: z.object({ code: z.string(), reason: z.string() }).nullable(),
});

/** A match of transfers with payments, as far as it is. The last ones are known to every process. */
export const MatchRunView = RunHead.extend({
  order: MatchOrder,
  /** Of the tokens that it has come to; whole once it is `done`. Null before the first, and in a list. */
  result: TransferMatches.nullable(),
});
export type MatchRunView = z.infer<typeof MatchRunView>;

/** A look for refunds on the chain. */
export const RefundCheckRunView = RunHead.extend({
  /** Null before it has ended, and in a list. */
  result: RefundCheck.nullable(),
});
export type RefundCheckRunView = z.infer<typeof RefundCheckRunView>;

type RunsApi<View> = {
  /** So many of the newest, the newest first, without their results. */
  list(limit: number): Promise<View[]>;
  /** Throws `run.unknown`. */
  show(id: string): Promise<View>;
  /** Throws `run.unknown`. */
  cancel(id: string): Promise<View>;
};

/** To begin throws `run.too_many`, and a match what `FindMatches` throws, as far as no chain is asked for it. */
export type MoneyRunsApi = {
  matches: RunsApi<MatchRunView> & { begin(order: MatchOrder): Promise<MatchRunView> };
  refundChecks: RunsApi<RefundCheckRunView> & { begin(): Promise<RefundCheckRunView> };
};

/** Of each token, so many mismatches are kept. */
const LISTED_MAX = 200;

/** The public name of these runs is older than the word. */
const MATCH = "audit";
const REFUND_CHECK = "refund-check";

type Kind = typeof MATCH | typeof REFUND_CHECK;

const BEGINS = { [MATCH]: "begin_audit", [REFUND_CHECK]: "begin_refund_check" } as const;

type Deps = OperateDeps & { tokens: TokenSource; wake: () => void };

/** Work on the money that takes long, since it asks the chain about many blocks. */
export function createMoneyRunsApi({ partition, clock, log, by, wake, tokens }: Deps): MoneyRunsApi {
  const runs = createRunStore(partition);

  function runsOf<View>(kind: Kind, toView: (run: Run) => View) {
    async function find(id: string): Promise<Run> {
      const run = await runs.find(id);
      if (run?.kind === kind) return run;
      throw AppError.public("run.unknown", `there is no ${kind} ${id}, or it is no longer kept`);
    }
    return {
      list: async (limit: number) => (await runs.list(kind, { limit, withProgress: false })).map(toView),
      show: async (id: string) => toView(await find(id)),
      async cancel(id: string) {
        await find(id);
        const act = { at: clock(), action: "cancel_run", run: id, by, selection: kind } as const;
        const run = await runs.cancel(act);
        logAudited(log, act);
        wake();
        return toView(run);
      },
      async start(request: unknown, selection: string) {
        const at = clock();
        const actOf = (run: string) => ({ at, action: BEGINS[kind], run, by, selection }) as const;
        const run = await runs.create({ kind, by, request }, actOf);
        logAudited(log, actOf(run.id));
        wake();
        return toView(run);
      },
    };
  }

  const { start: startMatch, ...matches } = runsOf(MATCH, toMatchView);
  const { start: startCheck, ...refundChecks } = runsOf(REFUND_CHECK, toCheckView);
  return {
    matches: {
      ...matches,
      async begin(order) {
        chooseTokens(tokens, order);
        return startMatch(order, matchSelection(order));
      },
    },
    refundChecks: {
      ...refundChecks,
      async begin() {
        tokens.chains();
        return startCheck({}, ALL_PENDING);
      },
    },
  };
}

/** How a process does such runs. One that is ended in between is done again from the beginning. */
export function moneyRuns(deps: {
  partition: Partition;
  tokens: TokenSource;
  clock: Clock;
  log: Logger;
}): Record<Kind, DoRun> {
  const findMatches = createFindMatches(deps.partition, deps.tokens, { listedMax: LISTED_MAX });
  const checkRefunds = createCheckRefunds(deps);
  return {
    async [MATCH]({ run, signal, tell, told }) {
      const result = await findMatches(MatchOrder.parse(run.request), { signal, tell });
      await told(result);
    },
    async [REFUND_CHECK]({ run, signal, told }) {
      await told(await checkRefunds({ by: run.by, selection: "by a refund check", run: run.id }, signal));
    },
  };
}

function toHead({ id, state, by, isCancelling, at, endedAt, failure }: Run): z.infer<typeof RunHead> {
  const isOpen = state === "waiting" || state === "running";
  return {
    ...{ id, state: isCancelling && isOpen ? "cancelling" : state, by },
    ...{ begun_at: toIso(at), ended_at: isoOrNull(endedAt) },
    failure: failure ?? null,
  };
}

function toMatchView(run: Run): MatchRunView {
  const result = run.progress === undefined ? null : TransferMatches.parse(run.progress);
  return { ...toHead(run), order: MatchOrder.parse(run.request), result };
}

function toCheckView(run: Run): RefundCheckRunView {
  return { ...toHead(run), result: run.progress === undefined ? null : RefundCheck.parse(run.progress) };
}
