import { OnChain } from "../../ui/explorer.tsx";
import { Time } from "../../ui/time.tsx";

/** Matches a time in the API's format, the hash of a transaction, or an address. */
const PART = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|0x[0-9a-fA-F]{64}\b|0x[0-9a-fA-F]{40}\b)/;

/**
 * Shows a sentence from the API. Times in it are shown in the time zone that the user has chosen, and transactions and
 * addresses link to a block explorer.
 */
export function Sentence({ text, network }: { text: string; network: string }) {
  return (
    <>
      {text.split(PART).map((part, i, parts) => {
        if (i % 2 === 0) return part;
        const isDeadline = parts[i - 1]?.endsWith("expires at ");
        if (!part.startsWith("0x")) return <Time key={i} at={part} form="exact" mayBeAhead={isDeadline} />;
        return <OnChain key={i} kind={part.length === 42 ? "address" : "tx"} text={part} network={network} />;
      })}
    </>
  );
}
