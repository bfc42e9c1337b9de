import { useState } from "preact/hooks";

/** Number of members of one object or array that are shown until the user asks for more. */
const MEMBERS_AT_ONCE = 100;
/** Depth up to which objects and arrays are unfolded at first. */
const OPEN_DEPTH = 3;

/**
 * Shows a JSON value, whose objects and arrays can be folded. Strings are shown as text and never as HTML, because the
 * JSON comes from strangers.
 */
export function Json({ value }: { value: unknown }) {
  return (
    <div class="json mono">
      <Value value={value} depth={0} />
    </div>
  );
}

/** Shows one value. A member of an object has its `name` in front. */
function Value({ name, value, depth }: { name?: string; value: unknown; depth: number }) {
  if (typeof value === "object" && value !== null)
    return <Members of={value} depth={depth} {...(name !== undefined && { name })} />;
  return (
    <>
      <Name name={name} />
      <span class={typeof value === "string" ? "json-text" : "json-plain"}>{JSON.stringify(value)}</span>
    </>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : <span class="json-name">{JSON.stringify(name)}: </span>;
}

function Members({ name, of, depth }: { name?: string; of: object; depth: number }) {
  const [most, setMost] = useState(MEMBERS_AT_ONCE);
  const isArray = Array.isArray(of);
  const members = Object.entries(of);
  const [opening, closing] = isArray ? ["[", "]"] : ["{", "}"];
  if (members.length === 0) {
    return (
      <>
        <Name name={name} />
        {`${opening}${closing}`}
      </>
    );
  }
  return (
    <details class="json-fold" open={depth < OPEN_DEPTH}>
      <summary>
        <Name name={name} />
        {opening}
        <span class="json-size">
          {members.length} {nounFor(members.length, isArray)} {closing}
        </span>
      </summary>
      <ul>
        {members.slice(0, most).map(([key, member]) => (
          <li key={key}>
            <Value value={member} depth={depth + 1} {...(!isArray && { name: key })} />
          </li>
        ))}
        {members.length > most && (
          <li>
            <button type="button" class="link" onClick={() => setMost(most + 10 * MEMBERS_AT_ONCE)}>
              {members.length - most} more
            </button>
          </li>
        )}
      </ul>
      <span class="json-end">{closing}</span>
    </details>
  );
}

function nounFor(members: number, isArray: boolean): string {
  const noun = isArray ? "item" : "member";
  return members === 1 ? noun : `${noun}s`;
}
