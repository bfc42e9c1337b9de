import { type Command, InvalidArgumentError, Option } from "commander";
import { PAYMENT_STATE_VIEWS, type PaymentStateView } from "../../../shared/operator/payment-states.ts";
import { EXPORT_ID, EXPORTED_MAX } from "../../../shared/payments/refund-export.ts";
import {
  callId,
  callIds,
  configDir,
  limitOption,
  operatorUrl,
  parseAddress,
  parseTransaction,
  sinceOption,
  untilOption,
  usageError,
  wholeNumber,
} from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { AuditOptions } from "./audit.ts";
import type { ListOptions } from "./list.ts";
import type { ReconcileOptions } from "./reconcile.ts";
import type { RefundCheckOptions } from "./refund-check.ts";
import type { RefundListOptions } from "./refund-list.ts";
import type { RefundWithdrawOptions } from "./refund-withdraw.ts";
import type { ResolveOptions } from "./resolve.ts";
import type { ShowOptions } from "./show.ts";
import type { SpentElsewhereOptions } from "./spent-elsewhere.ts";

/** `postern payments ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addPayments(program: Command, deps: ProgramDeps): void {
  const payments = program
    .command("payments")
    .description("look at, push, resolve, pay back or audit the payments that were taken");
  addList(payments, deps);
  addShow(payments, deps);
  addReconcile(payments, deps);
  addResolve(payments, deps);
  addRefundList(payments, deps);
  addRefundCheck(payments, deps);
  addRefundWithdraw(payments, deps);
  addAudit(payments, deps);
  addSpentElsewhere(payments, deps);
}

function addList(payments: Command, deps: ProgramDeps): void {
  payments
    .command("list")
    .description("list payments, the newest first")
    .addOption(
      new Option("--state <state>", "in this state").choices(PAYMENT_STATE_VIEWS).argParser(parseState),
    )
    .option("--payer <address>", "paid by this address", parseAddress)
    .addOption(sinceOption("claimed"))
    .addOption(untilOption("claimed"))
    .option("--open", "not ended yet: settling, review, queued, failed or refund_pending")
    .option("--disputed", "given to the runner, and contradicted by the chain since")
    .addOption(limitOption(50))
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: ListOptions) => {
      const { listPayments } = await import("./list.ts");
      deps.exitWith(await listPayments(deps, options));
    });
}

function parseState(text: string): PaymentStateView {
  const state = PAYMENT_STATE_VIEWS.find((each) => each === text.toLowerCase());
  if (state !== undefined) return state;
  throw new InvalidArgumentError(`a state is one of ${PAYMENT_STATE_VIEWS.join(", ")}`);
}

function addShow(payments: Command, deps: ProgramDeps): void {
  payments
    .command("show")
    .description("show one payment: state, times, terms, settlement")
    .addArgument(callId())
    .option("--json", "one JSON object")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showPayment } = await import("./show.ts");
      deps.exitWith(await showPayment(deps, id, options));
    });
}

const WAIT_SECS = 15;

function addReconcile(payments: Command, deps: ProgramDeps): void {
  payments
    .command("reconcile")
    .description("have the running gateways look at payments now, and say what came of it")
    .addArgument(callIds())
    .option("--all", "every payment in flight, except those whose call is in the queue or has failed")
    .option("--timeout <secs>", "how long to wait", wholeNumber("a time", { min: 1, max: 3600 }), WAIT_SECS)
    .option("--json", "one JSON object a line")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (ids: string[], options: ReconcileOptions, command: Command) => {
      if ((options.all === true) === ids.length > 0) usageError(command, "name payments, or --all");
      const { reconcilePayments } = await import("./reconcile.ts");
      deps.exitWith(await reconcilePayments(deps, ids, options));
    });
}

function addResolve(payments: Command, deps: ProgramDeps): void {
  payments
    .command("resolve")
    .description(
      "decide on a payment in review (a settled one runs its job), acknowledge a disputed one, or drop the body of an open one",
    )
    .addArgument(callId())
    .option("--settled", "the money is there; needs --transaction")
    .option("--void", "it was not paid and is not going to be; its body is deleted")
    .option("--acknowledged", "it is disputed, and you have seen it: nothing else is done")
    .option("--dropped", "delete its body and send no settle; money that comes all the same is due back")
    .option("--transaction <hash>", "the transaction that settled it", parseTransaction)
    .requiredOption("--reason <text>", "why, for the audit")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ResolveOptions, command: Command) => {
      requireVerdict(command, options);
      const { resolvePayment } = await import("./resolve.ts");
      deps.exitWith(await resolvePayment(deps, id, options));
    });
}

function requireVerdict(command: Command, options: ResolveOptions): void {
  const { settled, void: isVoid, acknowledged, dropped } = options;
  const verdicts = [settled, isVoid, acknowledged, dropped].filter((given) => given === true);
  if (verdicts.length !== 1) usageError(command, "say either --settled, --void, --acknowledged or --dropped");
  if (options.settled && options.transaction === undefined)
    usageError(command, "--settled needs --transaction");
  if (!options.settled && options.transaction !== undefined)
    usageError(command, "only --settled has a --transaction");
  if (options.reason.trim() === "") usageError(command, "--reason is empty");
}

function addRefundList(payments: Command, deps: ProgramDeps): void {
  payments
    .command("refund-list")
    .description("list what was paid and failed for good; with a format, export it once for a multisig")
    .addArgument(callIds())
    .addOption(new Option("--csv", "export, for the Safe app CSV Airdrop").conflicts("calldata"))
    .option("--calldata", "export, for the Safe app Transaction Builder")
    .option("--export <id>", "print this export again, and change nothing", parseExportId)
    .option("--effect-unknown", "also calls of which an attempt may have done the job")
    .option("--network <network>", "as eip155:8453; needed if the cases are on several")
    .option(
      "--limit <n>",
      "at most this many in one export, the oldest first",
      wholeNumber("a limit", { min: 1, max: EXPORTED_MAX }),
      EXPORTED_MAX / 5,
    )
    .option("--reason <text>", "why, for the audit")
    .addOption(new Option("--json", "the list as one JSON object a line").conflicts(["csv", "calldata"]))
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (ids: string[], options: RefundListOptions, command: Command) => {
      requireFormat(command, ids, options);
      const { listRefunds } = await import("./refund-list.ts");
      deps.exitWith(await listRefunds(deps, ids, options));
    });
}

function requireFormat(command: Command, ids: readonly string[], options: RefundListOptions): void {
  if (options.export === undefined) return;
  if (!options.csv && !options.calldata) usageError(command, "--export needs --csv or --calldata");
  if (ids.length > 0 || options.network !== undefined || options.effectUnknown)
    usageError(command, "--export prints what was exported, and chooses nothing");
}

function parseExportId(text: string): string {
  if (EXPORT_ID.test(text)) return text;
  throw new InvalidArgumentError("the id of an export is r_ and 32 lower-case hex digits");
}

function addRefundCheck(payments: Command, deps: ProgramDeps): void {
  payments
    .command("refund-check")
    .description(
      "look on the chain for what the senders in refund_from have paid back, and close those cases",
    )
    .option("--json", "one JSON object")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: RefundCheckOptions) => {
      const { checkRefunds } = await import("./refund-check.ts");
      deps.exitWith(await checkRefunds(deps, options));
    });
}

function addRefundWithdraw(payments: Command, deps: ProgramDeps): void {
  payments
    .command("refund-withdraw")
    .description("end a pending refund whose call the runner has taken after its export")
    .addArgument(callId())
    .requiredOption("--reason <text>", "why, for the audit")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: RefundWithdrawOptions) => {
      const { withdrawRefund } = await import("./refund-withdraw.ts");
      deps.exitWith(await withdrawRefund(deps, id, options));
    });
}

function addAudit(payments: Command, deps: ProgramDeps): void {
  payments
    .command("audit")
    .description("match every transfer to pay_to in a range of blocks against the journal")
    .requiredOption("--from-block <n>", "the first block", parseBlock)
    .option("--to-block <n>", "the last block (default: the latest)", parseBlock)
    .option("--network <network>", "as eip155:8453; needed if the tokens are on several")
    .option("--other <file>", "the --json of another deployment's audit: find transfers that count at both")
    .option("--json", "one JSON object")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: AuditOptions) => {
      const { auditPayments } = await import("./audit.ts");
      deps.exitWith(await auditPayments(deps, options));
    });
}

function addSpentElsewhere(payments: Command, deps: ProgramDeps): void {
  payments
    .command("spent-elsewhere")
    .description("list payments refused because they were spent before they came, and in which transaction")
    .addOption(limitOption(50))
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: SpentElsewhereOptions) => {
      const { listSpentElsewhere } = await import("./spent-elsewhere.ts");
      deps.exitWith(await listSpentElsewhere(deps, options));
    });
}

function parseBlock(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("a block is a whole number");
}
