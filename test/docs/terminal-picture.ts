import type { Line } from "./terminal-session.ts";

const FONT_PX = 15;
/** Width of a character in the widest font of the list. */
const COLUMN_PX = FONT_PX * 0.602;
const LINE_PX = 20;
const MARGIN_PX = 22;
const BAR_PX = 36;

type Picture = { title: string; description: string; scenes: readonly (readonly Line[])[] };

/**
 * Draws a terminal as an SVG without scripts and without other files. Commands and their output appear one after the other, once, within
 * five seconds. Everything is visible at once for readers who prefer less motion, and in programs that do not animate.
 */
export function drawTerminal({ title, description, scenes }: Picture): string {
  const texts: string[] = [];
  let beat = -1;
  let y = BAR_PX + LINE_PX + 8;
  for (const scene of scenes) {
    for (const [i, line] of scene.entries()) {
      if (i === 0 || (line.kind === "output") !== (scene[i - 1]?.kind === "output")) beat += 1;
      texts.push(textOf(line, { y, beat }));
      y += LINE_PX;
    }
    y += LINE_PX;
  }
  texts.push(textOf({ kind: "command", text: "█" }, { y, beat: beat + 1 }));

  const columns = Math.max(
    ...scenes.flat().map(({ kind, text }) => text.length + (kind === "command" ? 2 : 0)),
  );
  const width = Math.ceil(columns * COLUMN_PX) + 2 * MARGIN_PX;
  const height = y + MARGIN_PX;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" xml:space="preserve" role="img" aria-labelledby="title desc">
<title id="title">${escaped(title)}</title>
<desc id="desc">${escaped(description)}</desc>
<style>${STYLE}</style>
<rect x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="10" fill="#0d1117" stroke="#3d444d"/>
<path d="M1 ${BAR_PX}V11A10 10 0 0 1 11 1H${width - 11}A10 10 0 0 1 ${width - 1} 11V${BAR_PX}Z" fill="#1c2128"/>
<circle cx="22" cy="18" r="6" fill="#ff5f57"/><circle cx="42" cy="18" r="6" fill="#febc2e"/><circle cx="62" cy="18" r="6" fill="#28c840"/>
<text class="name" x="${width / 2}" y="23" text-anchor="middle">${escaped(title)}</text>
<g class="screen">
${texts.join("\n")}
</g>
</svg>
`;
}

const STYLE = `
text{font:${FONT_PX}px ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;white-space:pre;fill:#b7c0ca}
.name{fill:#8d96a0}
.comment{fill:#79c0ff}
.command{fill:#f0f6fc}
.prompt,.good{fill:#7ee787}
.bad{fill:#ff7b72}
@media (prefers-reduced-motion:no-preference){
.screen text{animation:appear .15s calc(var(--beat)*.4s) both}
@keyframes appear{from{opacity:0}}
}
`;

type Place = { y: number; beat: number };

function textOf({ kind, text }: Line, { y, beat }: Place): string {
  const prompt = kind === "command" ? '<tspan class="prompt">$</tspan> ' : "";
  const shown = kind === "output" ? coloured(text) : escaped(text);
  return `<text class="${kind}" x="${MARGIN_PX}" y="${y}" style="--beat:${beat}">${prompt}${shown}</text>`;
}

const GOOD = /\b(?:202 Accepted|injected)\b|^1$/g;
const BAD = /\bKilled\b/g;

function coloured(text: string): string {
  return escaped(text)
    .replace(GOOD, '<tspan class="good">$&</tspan>')
    .replace(BAD, '<tspan class="bad">$&</tspan>');
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
