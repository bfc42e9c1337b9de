import { Option } from "commander";
import { PAYMENT_STATE_VIEWS, type PaymentStateView } from "../../../shared/console/payment-states.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import {
  CALL,
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
import { listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SelectionOptions } from "./acknowledge.ts";
import type { AuditOptions } from "./audit.ts";
import type { ListOptions } from "./list.ts";
import type { ListSpentOptions } from "./list-spent.ts";
import type { ReconcileOptions } from "./reconcile.ts";
import type { ResolveOptions } from "./resolve.ts";
import type { ShowOptions } from "./show.ts";

/** Adds `postern payments ...` with its options. Each subcommand is implemented in the file of its name. */
export function addPayments(program: ProgramCommand, deps: ProgramDeps): void {
  const payments = program
    .command("payments")
    .description("list, show, reconcile, resolve or audit payments")
    .helpGroup(GROUP.money);
  addList(payments, deps);
  addShow(payments, deps);
  addReconcile(payments, deps);
  addResolve(payments, deps);
  addAudit(payments, deps);
  addListSpent(payments, deps);
}

function addList(payments: ProgramCommand, deps: ProgramDeps): void {
  addFilterOptions(payments.command("list"))
    .description("list payments, newest first")
    .helpGroup(GROUP.look)
    .option("--open", "only payments that have not ended: settling, review, queued, failed or refund_pending")
    .option("--disputed", "only disputed payments: the chain contradicts them after their call was queued")
    .option("--acknowledged", "only disputed payments that an operator has acknowledged")
    .addOption(limitOption(50))
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("payments list --open", "payments list --state review --since 7d")
    .action(async (options: ListOptions) => {
      const { listPayments } = await import("./list.ts");
      deps.exitWith(await listPayments(deps, options));
    });
}

/** Adds the options that select payments. */
function addFilterOptions(command: ProgramCommand): ProgramCommand {
  return command
    .addOption(
      new Option("--state <state>", "state of the payment")
        .choices(PAYMENT_STATE_VIEWS)
        .argParser(parseState),
    )
    .option("--payer <address>", "address that paid for the call", parseAddress)
    .addOption(sinceOption("claimed"))
    .addOption(untilOption("claimed"));
}

function parseState(text: string): PaymentStateView {
  const state = PAYMENT_STATE_VIEWS.find((each) => each === text.toLowerCase());
  if (state !== undefined) return state;
  return refuseValue(`must be one of ${PAYMENT_STATE_VIEWS.join(", ")}`, "review");
}

function addShow(payments: ProgramCommand, deps: ProgramDeps): void {
  payments
    .command("show")
    .description("show the state, times, terms and settlement of a payment")
    .helpGroup(GROUP.look)
    .addArgument(callId())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`payments show ${CALL}`)
    .action(async (id: string, options: ShowOptions) => {
      const { showPayment } = await import("./show.ts");
      deps.exitWith(await showPayment(deps, id, options));
    });
}

const WAIT_SECS = 15;

function addReconcile(payments: ProgramCommand, deps: ProgramDeps): void {
  payments
    .command("reconcile")
    .description("have the running gateways check payments now, and print the outcome of each")
    .helpGroup(GROUP.act)
    .addArgument(callIds())
    .option(
      "--all",
      "check all payments whose outcome is not known, and those of ended calls that the chain has not confirmed yet",
    )
    .option(
      "--wait <secs>",
      "seconds to wait for the gateways",
      wholeNumber({ example: WAIT_SECS, min: 1, max: 3600 }),
      WAIT_SECS,
    )
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`payments reconcile ${CALL}`, "payments reconcile --all --wait 60")
    .action(async (ids: string[], options: ReconcileOptions, command: ProgramCommand) => {
      if ((options.all === true) === ids.length > 0) usageError(command, "give either call ids or --all");
      const { reconcilePayments } = await import("./reconcile.ts");
      deps.exitWith(await reconcilePayments(deps, ids, options));
    });
}

function addResolve(payments: ProgramCommand, deps: ProgramDeps): void {
  addFilterOptions(payments.command("resolve"))
    .description(
      "decide whether a payment in review is paid, give up one whose outcome is not known, or acknowledge disputed ones",
    )
    .helpGroup(GROUP.act)
    .addArgument(callIds())
    .option("--settled", "mark a payment in review as paid: its call runs; requires --transaction")
    .option(
      "--void",
      "mark a payment in review as not paid, if it can no longer be made: the body of its call is deleted",
    )
    .option(
      "--acknowledged",
      "record that you have seen the dispute; nothing else changes. Takes several ids, or filters of disputed payments",
    )
    .option("--all", "acknowledge every disputed payment")
    .option(
      "--dropped",
      "give up a payment that is settling or in review: its call never runs, and its body is deleted; if the money still arrives, a refund is due",
    )
    .option("--transaction <hash>", "hash of the transaction that made the payment", parseTransaction)
    .requiredOption("--reason <text>", "reason for the audit log")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(
      `payments resolve ${CALL} --void --reason "not on the chain"`,
      'payments resolve --acknowledged --since 2h --reason "it lied"',
    )
    .action(async (ids: string[], options: ResolveOptions & SelectionOptions, command: ProgramCommand) => {
      requireVerdict(command, options);
      requirePayments(command, ids, options);
      const [only, ...others] = ids;
      if (only !== undefined && others.length === 0) {
        const { resolvePayment } = await import("./resolve.ts");
        return deps.exitWith(await resolvePayment(deps, only, options));
      }
      const { acknowledgePayments } = await import("./acknowledge.ts");
      deps.exitWith(await acknowledgePayments(deps, ids, options));
    });
}

function requirePayments(
  command: ProgramCommand,
  ids: readonly string[],
  { acknowledged, all, state, payer, since, until }: ResolveOptions & SelectionOptions,
): void {
  const isFiltered = [state, payer, since, until].some((given) => given !== undefined);
  const chosen = [ids.length > 0, isFiltered, all === true].filter((isGiven) => isGiven).length;
  if (!acknowledged && (ids.length !== 1 || chosen > 1))
    usageError(command, "give one call id; only --acknowledged takes several, filters or --all");
  if (chosen !== 1)
    usageError(command, "give either call ids, or filters, or --all for every disputed payment");
}

function requireVerdict(command: ProgramCommand, options: ResolveOptions): void {
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

const MATCHES = `
Counts:
  matched         transfers to pay_to that a payment explains
  orphans         transfers to pay_to that no known payment explains
  unsettled       transfers whose payment does not count as paid
  missing         payments that count as paid, without a transfer on the chain
  surplus refund  transfer from refund_from for a refund that was withdrawn, or
                  was already paid`;

function addAudit(payments: ProgramCommand, deps: ProgramDeps): void {
  payments
    .command("audit")
    .description("match payments with the transfers to pay_to in a range of blocks")
    .helpGroup(GROUP.look)
    .requiredOption("--from-block <n>", "first block of the range", parseBlock)
    .option("--to-block <n>", "last block of the range (default: the latest block)", parseBlock)
    .option(
      "--network <network>",
      "network of the tokens, such as eip155:8453; required if they are on several",
    )
    .option("--other <file>", "JSON output of the audit at another Redis; finds transfers counted at both")
    .addOption(operatorUrl())
    .addOption(configDir())
    .addHelpText("after", MATCHES)
    .examples("payments audit --from-block 1200000")
    .action(async (options: AuditOptions) => {
      const { auditPayments } = await import("./audit.ts");
      deps.exitWith(await auditPayments(deps, options));
    });
}

function addListSpent(payments: ProgramCommand, deps: ProgramDeps): void {
  payments
    .command("list-spent")
    .description("list payments that were refused because they were already spent, newest first")
    .helpGroup(GROUP.look)
    .addOption(limitOption(50))
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("payments list-spent")
    .action(async (options: ListSpentOptions) => {
      const { listSpent } = await import("./list-spent.ts");
      deps.exitWith(await listSpent(deps, options));
    });
}

function parseBlock(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  return refuseValue("must be a block number in decimal digits", "1200000");
}
