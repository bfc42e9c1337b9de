import { Argument, Option } from "commander";
import { EXPORTED_MAX } from "../../../shared/payments/refund-export.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { CALL, callId, callIds, configDir, operatorUrl, refuseValue, wholeNumber } from "../options.ts";
import { listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { CasesOptions } from "./cases.ts";
import type { CheckOptions } from "./check.ts";
import type { ExportOptions, ShowOptions } from "./export.ts";
import type { ReportOptions } from "./report.ts";
import type { WithdrawOptions } from "./withdraw.ts";

/** Adds `postern refunds ...` with its options. Each subcommand is implemented in the file of its name. */
export function addRefunds(program: ProgramCommand, deps: ProgramDeps): void {
  const refunds = program
    .command("refunds")
    .description("list, export, check or withdraw refunds")
    .helpGroup(GROUP.money);
  addList(refunds, deps);
  addReport(refunds, deps);
  addShow(refunds, deps);
  addExport(refunds, deps);
  addCheck(refunds, deps);
  addWithdraw(refunds, deps);
}

/** Adds the options that select refunds. */
function addCasesOptions(command: ProgramCommand): ProgramCommand {
  return command
    .addArgument(callIds())
    .option("--effect-unknown", "include calls whose job may have run")
    .option(
      "--network <network>",
      "network of the refunds, such as eip155:8453; an export requires it if they are on several",
    );
}

function addList(refunds: ProgramCommand, deps: ProgramDeps): void {
  addCasesOptions(refunds.command("list"))
    .description("list paid calls that failed or were discarded, newest first; exports nothing")
    .helpGroup(GROUP.look)
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("refunds list", "refunds list --effect-unknown")
    .action(async (ids: string[], options: CasesOptions) => {
      const { listRefunds } = await import("./cases.ts");
      deps.exitWith(await listRefunds(deps, ids, options));
    });
}

function addReport(refunds: ProgramCommand, deps: ProgramDeps): void {
  refunds
    .command("report")
    .description("print all refunds as CSV for bookkeeping; exports nothing")
    .helpGroup(GROUP.look)
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("refunds report > refunds.csv")
    .action(async (options: ReportOptions) => {
      const { reportRefunds } = await import("./report.ts");
      deps.exitWith(await reportRefunds(deps, options));
    });
}

function addShow(refunds: ProgramCommand, deps: ProgramDeps): void {
  refunds
    .command("show")
    .description("print an earlier export again, the same bytes; exports nothing")
    .helpGroup(GROUP.look)
    .addArgument(exportId())
    .addOption(exportOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("refunds show r_4f1b -o csv")
    .action(async (id: string, options: ShowOptions) => {
      const { showExport } = await import("./export.ts");
      deps.exitWith(await showExport(deps, id, options));
    });
}

function addExport(refunds: ProgramCommand, deps: ProgramDeps): void {
  addCasesOptions(refunds.command("export"))
    .description(
      "export refunds of failed and discarded calls, each once, for the multisig wallet that pays them",
    )
    .helpGroup(GROUP.act)
    .addOption(exportOutput())
    .option(
      "--limit <n>",
      "export at most n refunds, oldest first",
      wholeNumber({ example: 20, min: 1, max: EXPORTED_MAX }),
      EXPORTED_MAX / 5,
    )
    .option("--reason <text>", "reason for the audit log")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("refunds export -o csv > refunds.csv", `refunds export ${CALL} -o calldata`)
    .action(async (ids: string[], options: ExportOptions) => {
      const { exportRefunds } = await import("./export.ts");
      deps.exitWith(await exportRefunds(deps, ids, options));
    });
}

function addCheck(refunds: ProgramCommand, deps: ProgramDeps): void {
  refunds
    .command("check")
    .description("find transfers from refund_from on the chain, and close the refunds that they pay")
    .helpGroup(GROUP.act)
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("refunds check")
    .action(async (options: CheckOptions) => {
      const { checkRefunds } = await import("./check.ts");
      deps.exitWith(await checkRefunds(deps, options));
    });
}

function addWithdraw(refunds: ProgramCommand, deps: ProgramDeps): void {
  refunds
    .command("withdraw")
    .description("withdraw an exported refund whose call was injected after the export")
    .helpGroup(GROUP.act)
    .addArgument(callId())
    .requiredOption("--reason <text>", "reason for the audit log")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`refunds withdraw ${CALL} --reason "its job ran late"`)
    .action(async (id: string, options: WithdrawOptions) => {
      const { withdrawRefund } = await import("./withdraw.ts");
      deps.exitWith(await withdrawRefund(deps, id, options));
    });
}

/** Option for the format of an export: for an app of the Safe wallet, or JSON. */
function exportOutput(): Option {
  const what = "csv for the Safe app CSV Airdrop, calldata for Transaction Builder, or json";
  return new Option("-o, --output <form>", what).choices(["csv", "calldata", "json"]).makeOptionMandatory();
}

function exportId(): Argument {
  return new Argument("<export>", "id of the export, or a unique prefix of it").argParser(parseExportId);
}

function parseExportId(text: string): string {
  if (/^r_[0-9a-f]{4,32}$/.test(text)) return text;
  return refuseValue(
    "must be an export id: r_ and 32 lower-case hex digits, or at least the first 4 of them",
    "r_4f1b",
  );
}
