import { type Command, Option } from "commander";
import { PAYMENT_STATE_VIEWS, type PaymentStateView } from "../../../shared/console/payment-states.ts";
import { EXPORT_ID, EXPORTED_MAX } from "../../../shared/payments/refund-export.ts";
import {
  callId,
  callIds,
  configDir,
  limitOption,
  operatorUrl,
  parseAddress,
  parseTransaction,
  refuseValue,
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
    .description("list, check, resolve or audit payments; list, export or check refunds");
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
    .description("list payments, newest first")
    .addOption(
      new Option("--state <state>", "state of the payment")
        .choices(PAYMENT_STATE_VIEWS)
        .argParser(parseState),
    )
    .option("--payer <address>", "address that paid for the call", parseAddress)
    .addOption(sinceOption("claimed"))
    .addOption(untilOption("claimed"))
    .option("--open", "only payments that have not ended: settling, review, queued, failed or refund_pending")
    .option("--disputed", "only disputed payments: the chain contradicts them after their call was queued")
    .addOption(limitOption(50))
    .option("--json", "print JSON, one object a line")
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
  return refuseValue(`must be one of ${PAYMENT_STATE_VIEWS.join(", ")}`, "review");
}

function addShow(payments: Command, deps: ProgramDeps): void {
  payments
    .command("show")
    .description("show the state, times, terms and settlement of a payment")
    .addArgument(callId())
    .option("--json", "print one JSON object")
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
    .description("have the running gateways check payments now, and print the outcome of each")
    .addArgument(callIds())
    .option("--all", "check all payments in flight, except those whose call is queued or has failed")
    .option(
      "--timeout <secs>",
      "seconds to wait for the gateways",
      wholeNumber(WAIT_SECS, { min: 1, max: 3600 }),
      WAIT_SECS,
    )
    .option("--json", "print JSON, one object a line")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (ids: string[], options: ReconcileOptions, command: Command) => {
      if ((options.all === true) === ids.length > 0) usageError(command, "give either call ids or --all");
      const { reconcilePayments } = await import("./reconcile.ts");
      deps.exitWith(await reconcilePayments(deps, ids, options));
    });
}

function addResolve(payments: Command, deps: ProgramDeps): void {
  payments
    .command("resolve")
    .description(
      "mark a payment in review as paid or not paid, acknowledge a disputed one, or delete the body of one that is not settled",
    )
    .addArgument(callId())
    .option("--settled", "mark a payment in review as paid: its call runs; requires --transaction")
    .option(
      "--void",
      "mark a payment in review as not paid, if it can no longer be made; its body is deleted",
    )
    .option("--acknowledged", "record that you have seen the dispute; nothing else changes")
    .option(
      "--dropped",
      "delete the body of a payment that is settling or in review; no further settle request is sent, and a refund is due if the money still arrives",
    )
    .option("--transaction <hash>", "hash of the transaction that made the payment", parseTransaction)
    .requiredOption("--reason <text>", "reason for the audit trail")
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
  if (verdicts.length !== 1)
    usageError(command, "give exactly one of --settled, --void, --acknowledged and --dropped");
  if (options.settled && options.transaction === undefined)
    usageError(command, "--settled requires --transaction");
  if (!options.settled && options.transaction !== undefined)
    usageError(command, "--transaction requires --settled");
  if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
}

function addRefundList(payments: Command, deps: ProgramDeps): void {
  payments
    .command("refund-list")
    .description("list refunds due; with --csv or --calldata, export each once for a multisig wallet")
    .addArgument(callIds())
    .addOption(new Option("--csv", "export as CSV for the Safe app CSV Airdrop").conflicts("calldata"))
    .option("--calldata", "export as JSON for the Safe app Transaction Builder")
    .addOption(
      new Option("--report", "print all refunds as CSV for bookkeeping; export nothing").conflicts([
        "csv",
        "calldata",
        "export",
        "effectUnknown",
        "network",
        "json",
      ]),
    )
    .option("--export <id>", "id of an earlier export to print again; exports nothing", parseExportId)
    .option("--effect-unknown", "include calls whose job may have run")
    .option(
      "--network <network>",
      "network of the refunds, such as eip155:8453; required if they are on several",
    )
    .option(
      "--limit <n>",
      "export at most n refunds, oldest first",
      wholeNumber(20, { min: 1, max: EXPORTED_MAX }),
      EXPORTED_MAX / 5,
    )
    .option("--reason <text>", "reason for the audit trail")
    .addOption(new Option("--json", "print JSON, one object a line").conflicts(["csv", "calldata"]))
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (ids: string[], options: RefundListOptions, command: Command) => {
      requireFormat(command, ids, options);
      const { listRefunds } = await import("./refund-list.ts");
      deps.exitWith(await listRefunds(deps, ids, options));
    });
}

function requireFormat(command: Command, ids: readonly string[], options: RefundListOptions): void {
  if (options.report && ids.length > 0) usageError(command, "--report prints all refunds: give no call ids");
  if (options.export === undefined) return;
  if (!options.csv && !options.calldata) usageError(command, "--export requires --csv or --calldata");
  if (ids.length > 0 || options.network !== undefined || options.effectUnknown)
    usageError(command, "--export prints an earlier export: give no call ids, --network or --effect-unknown");
}

function parseExportId(text: string): string {
  if (EXPORT_ID.test(text)) return text;
  return refuseValue("must be an export id: r_ and 32 lower-case hex digits", "r_4f1b…");
}

function addRefundCheck(payments: Command, deps: ProgramDeps): void {
  payments
    .command("refund-check")
    .description("find transfers from refund_from on the chain, and close the refunds that they pay")
    .option("--json", "print one JSON object")
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
    .description("withdraw an exported refund whose call was injected after the export")
    .addArgument(callId())
    .requiredOption("--reason <text>", "reason for the audit trail")
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
    .description("match payments with the transfers to pay_to in a range of blocks")
    .requiredOption("--from-block <n>", "first block of the range", parseBlock)
    .option("--to-block <n>", "last block of the range (default: the latest block)", parseBlock)
    .option(
      "--network <network>",
      "network of the tokens, such as eip155:8453; required if they are on several",
    )
    .option("--other <file>", "JSON output of another deployment's audit; finds transfers counted at both")
    .option("--json", "print one JSON object")
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
    .description("list payments that were refused because they were already spent, newest first")
    .addOption(limitOption(50))
    .option("--json", "print JSON, one object a line")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: SpentElsewhereOptions) => {
      const { listSpentElsewhere } = await import("./spent-elsewhere.ts");
      deps.exitWith(await listSpentElsewhere(deps, options));
    });
}

function parseBlock(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  return refuseValue("must be a block number in decimal digits", "1200000");
}
