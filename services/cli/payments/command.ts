import { type Command, InvalidArgumentError, Option } from "commander";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { parseId } from "../failed/filter.ts";
import { configDir, parseAddress, parseTime, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { AuditOptions } from "./audit.ts";
import type { ListOptions } from "./list.ts";
import type { ReconcileOptions } from "./reconcile.ts";
import type { ResolveOptions } from "./resolve.ts";
import type { ShowOptions } from "./show.ts";

const WAIT_SECS = 15;

/** `postern payments ...`: what an operator does with payments. Each loads only what it needs. */
export function addPayments(program: Command, deps: ProgramDeps): void {
  const payments = program
    .command("payments")
    .description("look at, push, resolve or audit the payments that were taken");
  addList(payments, deps);
  addShow(payments, deps);
  addReconcile(payments, deps);
  addResolve(payments, deps);
  addAudit(payments, deps);
}

function addList(payments: Command, deps: ProgramDeps): void {
  addFilterOptions(payments.command("list"))
    .description("list payments, the newest first")
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(configDir())
    .action(async (options: ListOptions) => {
      const { listPayments } = await import("./list.ts");
      deps.exitWith(await listPayments(deps, options));
    });
}

function addShow(payments: Command, deps: ProgramDeps): void {
  payments
    .command("show")
    .description("show one payment: state, times, terms, settlement")
    .argument("<id>", "the call id", parseId)
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showPayment } = await import("./show.ts");
      deps.exitWith(await showPayment(deps, id, options));
    });
}

function addReconcile(payments: Command, deps: ProgramDeps): void {
  payments
    .command("reconcile")
    .description("have the running gateways look at payments now, and say what came of it")
    .argument("[ids...]", "call ids", (id: string, before: string[] = []) => [...before, parseId(id)])
    .option("--all", "every payment that is looked after, but those whose call is in the queue or failed")
    .option("--timeout <secs>", "how long to wait", wholeNumber("a time", { min: 1, max: 3600 }), WAIT_SECS)
    .option("--json", "one JSON object a line")
    .addOption(configDir())
    .action(async (ids: string[], options: ReconcileOptions, command: Command) => {
      if ((options.all === true) === ids.length > 0) {
        command.error("error: name payments, or --all", { exitCode: EXIT.usage });
      }
      const { reconcilePayments } = await import("./reconcile.ts");
      deps.exitWith(await reconcilePayments(deps, [...new Set(ids)], options));
    });
}

function addResolve(payments: Command, deps: ProgramDeps): void {
  payments
    .command("resolve")
    .description("decide on a payment in review: it settled, or it never will; a settled one runs its job")
    .argument("<id>", "the call id", parseId)
    .option("--settled", "the money is there; needs --transaction")
    .option("--void", "it was not paid and is not going to be; its body is deleted")
    .option("--transaction <hash>", "what it settled by", parseTransaction)
    .requiredOption("--reason <text>", "why, for the audit")
    .addOption(configDir())
    .action(async (id: string, options: ResolveOptions, command: Command) => {
      requireVerdict(options, command);
      const { resolvePayment } = await import("./resolve.ts");
      deps.exitWith(await resolvePayment(deps, id, options));
    });
}

function requireVerdict(options: ResolveOptions, command: Command): void {
  const usage = (what: string) => command.error(`error: ${what}`, { exitCode: EXIT.usage });
  if ((options.settled === true) === (options.void === true)) usage("say either --settled or --void");
  if (options.settled && options.transaction === undefined) usage("--settled needs --transaction");
  if (options.void && options.transaction !== undefined) usage("--void has no --transaction");
  if (options.reason.trim() === "") usage("--reason is empty");
}

function addAudit(payments: Command, deps: ProgramDeps): void {
  payments
    .command("audit")
    .description("match every transfer to pay_to in a range of blocks against the journal")
    .requiredOption("--from-block <n>", "the first block", parseBlock)
    .option("--to-block <n>", "the last block (default: the latest)", parseBlock)
    .option("--network <network>", "as eip155:8453; needed where tokens are on several")
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (options: AuditOptions) => {
      const { auditPayments } = await import("./audit.ts");
      deps.exitWith(await auditPayments(deps, options));
    });
}

const STATES = [
  "SETTLING",
  "SETTLED",
  "QUEUED",
  "FAILED",
  "INJECTED",
  "DISCARDED",
  "VOID",
  "REVIEW",
] as const satisfies readonly PaymentState[];

function addFilterOptions(command: Command): Command {
  return command
    .addOption(
      new Option("--state <state>", "in this state")
        .choices(STATES.map((state) => state.toLowerCase()))
        .argParser(parseState),
    )
    .option("--payer <address>", "paid by this address", parseAddress)
    .option("--since <time>", "claimed at or after: an ISO date (UTC), or 90s, 30m, 2h, 7d ago", parseTime)
    .option("--until <time>", "claimed at or before", parseTime)
    .option("--open", "not at its end yet: settling, review, settled, queued or failed")
    .option("--disputed", "given to the runner, and contradicted by the chain since")
    .option("--limit <n>", "at most so many; 0 for all", wholeNumber("a limit"), 50);
}

function parseTransaction(text: string): string {
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError("a transaction is 0x and 64 hex digits");
}

function parseBlock(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("a block is a whole number");
}

function parseState(text: string): PaymentState {
  const state = STATES.find((each) => each.toLowerCase() === text.toLowerCase());
  if (state !== undefined) return state;
  throw new InvalidArgumentError(`a state is one of ${STATES.join(", ").toLowerCase()}`);
}
