<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN">
<context>
    <name>CommandLine</name>
    <message>
        <source>A workbench for the inference of language models.</source>
        <translation>语言模型推理工作台。</translation>
    </message>
    <message>
        <source>The model to open (a .gguf file).</source>
        <translation>要打开的模型（.gguf 文件）。</translation>
    </message>
    <message>
        <source>reference, cpu, cuda or auto</source>
        <translation>reference、cpu、cuda 或 auto</translation>
    </message>
    <message>
        <source>Threads of the CPU back end; 0: one per core</source>
        <translation>CPU 后端的线程数；0：每个核心一个</translation>
    </message>
    <message>
        <source>debug, info, warning or error</source>
        <translation>debug、info、warning 或 error</translation>
    </message>
</context>
<context>
    <name>Failures</name>
    <message>
        <source>There is no file %1. If &apos;%2&apos; was moved, open it from its new place.</source>
        <translation>文件 %1 不存在。如果“%2”已被移动，请从新的位置打开它。</translation>
    </message>
    <message>
        <source>You may not read %1. Change the permissions of &apos;%2&apos;, or open another model.</source>
        <translation>没有读取 %1 的权限。请修改“%2”的权限，或打开另一个模型。</translation>
    </message>
    <message>
        <source>There is not enough memory for &apos;%1&apos;. Close other programs, or open a smaller model.</source>
        <translation>内存不足，无法载入“%1”。请关闭其他程序，或打开更小的模型。</translation>
    </message>
    <message>
        <source>&apos;%1&apos; was not opened.</source>
        <translation>未能打开“%1”。</translation>
    </message>
    <message>
        <source>No model is open, so there is nothing to answer with. Open one with File, Open model.</source>
        <translation>没有打开模型，因此无法回答。请通过“文件”菜单中的“打开模型”打开一个。</translation>
    </message>
    <message>
        <source>The model was not loaded, so there is nothing to answer with. Open another model, then ask again.</source>
        <translation>模型没有载入，因此无法回答。请打开另一个模型后再问一次。</translation>
    </message>
    <message>
        <source>%1 has no chat template: it can continue texts, but not answer in a chat. Open a model that was made for chats.</source>
        <translation>%1 没有对话模板：它只能续写文本，不能在对话中回答。请打开用于对话的模型。</translation>
    </message>
    <message>
        <source>The chat template of %1 refused this conversation.</source>
        <translation>%1 的对话模板拒绝了这段对话。</translation>
    </message>
    <message>
        <source>There was not enough memory to read the conversation. Close other programs, then ask again.</source>
        <translation>内存不足，无法读取这段对话。请关闭其他程序后再问一次。</translation>
    </message>
    <message>
        <source>This conversation has %1 tokens; the model&apos;s context holds %2, and the answer needs some of them. Shorten the message, or begin a new chat.</source>
        <translation>这段对话有 %1 个 token；模型的上下文只能容纳 %2 个，并且还要留出回答的位置。请缩短消息，或新建对话。</translation>
    </message>
    <message>
        <source>The engine refused the request.</source>
        <translation>引擎拒绝了这个请求。</translation>
    </message>
    <message>
        <source>The engine failed at this answer.</source>
        <translation>引擎在生成这个回答时出错。</translation>
    </message>
    <message>
        <source>stop string</source>
        <translation>遇到停止字符串</translation>
    </message>
    <message>
        <source>length limit reached</source>
        <translation>达到长度上限</translation>
    </message>
    <message>
        <source>context full</source>
        <translation>上下文已满</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>已停止</translation>
    </message>
    <message>
        <source>time limit reached</source>
        <translation>达到时间上限</translation>
    </message>
</context>
<context>
    <name>Knobs</name>
    <message>
        <source>The order of the stages leaves it out.</source>
        <translation>采样阶段的顺序中没有它。</translation>
    </message>
    <message>
        <source>At temperature 0 the likeliest token is always taken.</source>
        <translation>温度为 0 时总是取概率最大的 token。</translation>
    </message>
    <message>
        <source>Mirostat takes its place.</source>
        <translation>由 Mirostat 代替它。</translation>
    </message>
    <message>
        <source>The multiplier of DRY is 0.</source>
        <translation>DRY 的倍数为 0。</translation>
    </message>
    <message>
        <source>Mirostat is off.</source>
        <translation>Mirostat 已关闭。</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Flattens the choice above 1 and sharpens it below; at 0 the likeliest token is always taken.</source>
        <translation>大于 1 使选择更平均，小于 1 使选择更集中；为 0 时总是取概率最大的 token。</translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation>Top-p</translation>
    </message>
    <message>
        <source>Keeps the smallest set of tokens whose probabilities add up to p; 1 keeps all.</source>
        <translation>保留概率之和达到 p 的最小 token 集合；1 表示全部保留。</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Keeps the k likeliest tokens; 0 keeps all.</source>
        <translation>保留概率最大的 k 个 token；0 表示全部保留。</translation>
    </message>
    <message>
        <source>all</source>
        <translation>全部</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Drops tokens that are less likely than this share of the likeliest one; 0 drops none.</source>
        <translation>去掉概率低于最大概率这一比例的 token；0 表示不去掉。</translation>
    </message>
    <message>
        <source>Typical p</source>
        <translation>典型采样 p</translation>
    </message>
    <message>
        <source>Keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to p; 1 keeps all.</source>
        <translation>保留意外程度最接近期望值的 token，直到概率之和达到 p；1 表示全部保留。</translation>
    </message>
    <message>
        <source>Top-nσ</source>
        <translation>Top-nσ</translation>
    </message>
    <message>
        <source>Keeps the tokens whose logits lie within n standard deviations of the largest; 0 is off.</source>
        <translation>保留 logit 与最大值相差不超过 n 个标准差的 token；0 表示关闭。</translation>
    </message>
    <message>
        <source>off</source>
        <translation>关</translation>
    </message>
    <message>
        <source>XTC probability</source>
        <translation>XTC 概率</translation>
    </message>
    <message>
        <source>The chance that all top choices but the least likely of them are dropped; 0 is off.</source>
        <translation>去掉首选 token、只留其中概率最小的一个的几率；0 表示关闭。</translation>
    </message>
    <message>
        <source>XTC threshold</source>
        <translation>XTC 阈值</translation>
    </message>
    <message>
        <source>The probability from which a token counts as a top choice for XTC.</source>
        <translation>概率达到此值的 token 被 XTC 视为首选。</translation>
    </message>
    <message>
        <source>The probability of XTC is 0.</source>
        <translation>XTC 概率为 0。</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>重复惩罚</translation>
    </message>
    <message>
        <source>Makes tokens that occurred in the prompt or the answer less likely; 1 is off.</source>
        <translation>降低在提示词或回答中出现过的 token 的概率；1 表示关闭。</translation>
    </message>
    <message>
        <source>It looks back at 0 tokens.</source>
        <translation>回看范围为 0 个 token。</translation>
    </message>
    <message>
        <source>Looks back at</source>
        <translation>回看范围</translation>
    </message>
    <message>
        <source>How many of the last tokens the repetition penalty looks at; 0 is none.</source>
        <translation>重复惩罚回看最近多少个 token；0 表示不回看。</translation>
    </message>
    <message>
        <source>The repetition penalty is 1.</source>
        <translation>重复惩罚为 1。</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>频率惩罚</translation>
    </message>
    <message>
        <source>Is taken from a token&apos;s logit once for each time the answer has it; 0 is off.</source>
        <translation>token 在回答中每出现一次，就从它的 logit 中减去一次；0 表示关闭。</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>存在惩罚</translation>
    </message>
    <message>
        <source>Is taken from a token&apos;s logit as soon as the answer has it; 0 is off.</source>
        <translation>token 一旦在回答中出现，就从它的 logit 中减去；0 表示关闭。</translation>
    </message>
    <message>
        <source>Multiplier</source>
        <translation>倍数</translation>
    </message>
    <message>
        <source>How strongly going on with a passage that was there before is penalised; 0 is off.</source>
        <translation>对继续重复已有片段的惩罚强度；0 表示关闭。</translation>
    </message>
    <message>
        <source>Base</source>
        <translation>底数</translation>
    </message>
    <message>
        <source>How fast the penalty grows with the length of the repeated passage.</source>
        <translation>惩罚随重复片段长度增长的快慢。</translation>
    </message>
    <message>
        <source>Free length</source>
        <translation>免罚长度</translation>
    </message>
    <message>
        <source>Repeated passages of up to this many tokens are not penalised.</source>
        <translation>不超过这么多 token 的重复片段不受惩罚。</translation>
    </message>
    <message>
        <source>How many of the last tokens are searched for repeated passages; 0 is none.</source>
        <translation>在最近多少个 token 中查找重复片段；0 表示不查找。</translation>
    </message>
    <message>
        <source>Mirostat 2</source>
        <translation>Mirostat 2</translation>
    </message>
    <message>
        <source>Steers the surprise of the text to a target, in place of all stages that drop tokens.</source>
        <translation>把文本的意外程度引向目标值，代替所有去掉 token 的阶段。</translation>
    </message>
    <message>
        <source>Target surprise τ</source>
        <translation>目标意外程度 τ</translation>
    </message>
    <message>
        <source>The surprise that Mirostat aims at, in bits per token.</source>
        <translation>Mirostat 追求的意外程度，单位为比特/token。</translation>
    </message>
    <message>
        <source>Learning rate η</source>
        <translation>学习率 η</translation>
    </message>
    <message>
        <source>How fast Mirostat corrects itself.</source>
        <translation>Mirostat 自我修正的快慢。</translation>
    </message>
    <message>
        <source>More ways to drop tokens</source>
        <translation>更多截断方式</translation>
    </message>
    <message>
        <source>Repetition</source>
        <translation>重复</translation>
    </message>
    <message>
        <source>Repeated passages (DRY)</source>
        <translation>重复片段（DRY）</translation>
    </message>
    <message>
        <source>Mirostat</source>
        <translation>Mirostat</translation>
    </message>
    <message>
        <source>At temperature 0 nothing is left to chance.</source>
        <translation>温度为 0 时没有随机性。</translation>
    </message>
</context>
<context>
    <name>Presets</name>
    <message>
        <source>Balanced</source>
        <translation>均衡</translation>
    </message>
    <message>
        <source>The defaults: some freedom, hardly any nonsense.</source>
        <translation>默认设置：有一定自由度，很少胡言乱语。</translation>
    </message>
    <message>
        <source>Greedy</source>
        <translation>贪心</translation>
    </message>
    <message>
        <source>Always the likeliest token: the same question gives the same answer.</source>
        <translation>总是取概率最大的 token：同样的问题得到同样的回答。</translation>
    </message>
    <message>
        <source>Precise</source>
        <translation>精确</translation>
    </message>
    <message>
        <source>Little freedom, for facts, code and translations.</source>
        <translation>自由度小，适合事实、代码和翻译。</translation>
    </message>
    <message>
        <source>Inventive</source>
        <translation>创意</translation>
    </message>
    <message>
        <source>Much freedom, held together by min-p, and no repeated passages.</source>
        <translation>自由度大，由 min-p 约束，并避免重复片段。</translation>
    </message>
    <message>
        <source>The model itself</source>
        <translation>模型本身</translation>
    </message>
    <message>
        <source>Temperature 1 and nothing dropped: what the model learned.</source>
        <translation>温度为 1，不做截断：模型学到的原貌。</translation>
    </message>
</context>
<context>
    <name>QDockWidget</name>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
</context>
<context>
    <name>Units</name>
    <message>
        <source>%1 ns</source>
        <translation>%1 ns</translation>
    </message>
    <message>
        <source>%1 µs</source>
        <translation>%1 µs</translation>
    </message>
    <message>
        <source>%1 ms</source>
        <translation>%1 ms</translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation>%1 s</translation>
    </message>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 tok/s</translation>
    </message>
    <message>
        <source>%1 B</source>
        <translation>%1 B</translation>
    </message>
    <message>
        <source>%1 KiB</source>
        <translation>%1 KiB</translation>
    </message>
    <message>
        <source>%1 MiB</source>
        <translation>%1 MiB</translation>
    </message>
    <message>
        <source>%1 GiB</source>
        <translation>%1 GiB</translation>
    </message>
    <message>
        <source>%1 TiB</source>
        <translation>%1 TiB</translation>
    </message>
</context>
<context>
    <name>orrery::ui::AnswerBar</name>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation>
            <numerusform>%n 个 token</numerusform>
        </translation>
    </message>
    <message>
        <source>first after %1</source>
        <translation>首个 token %1</translation>
    </message>
    <message>
        <source>%1 of %2 prompt tokens from the cache</source>
        <translation>提示词 %2 个 token 中有 %1 个来自缓存</translation>
    </message>
    <message>
        <source>Waiting %1, prefill %2, decode %3</source>
        <translation>等待 %1，预填充 %2，解码 %3</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ChartStrip</name>
    <message>
        <source>Where did each step&apos;s time go?</source>
        <translation>每一步的时间花在哪里？</translation>
    </message>
    <message>
        <source>The time of each step of the engine, by phase.</source>
        <translation>这里会显示引擎每一步的耗时，按阶段划分。</translation>
    </message>
    <message>
        <source>Forward</source>
        <translation>前向</translation>
    </message>
    <message>
        <source>The model&apos;s own arithmetic: every layer for every token of the batch.</source>
        <translation>模型本身的计算：批次中每个 token 经过每一层。</translation>
    </message>
    <message>
        <source>Sample</source>
        <translation>采样</translation>
    </message>
    <message>
        <source>Choosing the next token from the logits.</source>
        <translation>从 logits 中选出下一个 token。</translation>
    </message>
    <message>
        <source>Schedule</source>
        <translation>调度</translation>
    </message>
    <message>
        <source>Deciding which sequence gets how many tokens, and its blocks.</source>
        <translation>决定每个序列这一步处理多少 token，并分配块。</translation>
    </message>
    <message>
        <source>Prepare</source>
        <translation>准备</translation>
    </message>
    <message>
        <source>Laying out the batch for the device.</source>
        <translation>为设备排好批次。</translation>
    </message>
    <message>
        <source>Publish</source>
        <translation>输出</translation>
    </message>
    <message>
        <source>Turning tokens into text and handing it out.</source>
        <translation>把 token 变成文本并送出。</translation>
    </message>
    <message>
        <source>blocks</source>
        <translation>块</translation>
    </message>
    <message>
        <source>The blocks of the key/value cache after each step: held, cached and free.</source>
        <translation>这里会显示每一步之后 KV 缓存的块：占用、缓存与空闲。</translation>
    </message>
    <message>
        <source>Held</source>
        <translation>占用</translation>
    </message>
    <message>
        <source>In use by a sequence.</source>
        <translation>正被某个序列使用。</translation>
    </message>
    <message>
        <source>Cached</source>
        <translation>缓存</translation>
    </message>
    <message>
        <source>Free</source>
        <translation>空闲</translation>
    </message>
    <message>
        <source>Without content.</source>
        <translation>没有内容。</translation>
    </message>
    <message>
        <source>What was in each batch?</source>
        <translation>每个批次里有什么？</translation>
    </message>
    <message>
        <source>tokens</source>
        <translation>token</translation>
    </message>
    <message>
        <source>The tokens of each step: prompts that are read, answers that are written.</source>
        <translation>这里会显示每一步的 token：读入的提示词和写出的回答。</translation>
    </message>
    <message>
        <source>Decode</source>
        <translation>解码</translation>
    </message>
    <message>
        <source>Tokens of answers: one for each sequence that writes.</source>
        <translation>回答的 token：每个正在写的序列一个。</translation>
    </message>
    <message>
        <source>Prefill</source>
        <translation>预填充</translation>
    </message>
    <message>
        <source>Tokens of prompts that are read.</source>
        <translation>正在读入的提示词 token。</translation>
    </message>
    <message>
        <source>Recomputed</source>
        <translation>重算</translation>
    </message>
    <message>
        <source>Tokens that were computed before, lost to a preemption, and computed again.</source>
        <translation>以前算过、因抢占而丢失、又重新计算的 token。</translation>
    </message>
    <message>
        <source>How are the KV blocks used?</source>
        <translation>KV 块的使用情况如何？</translation>
    </message>
    <message>
        <source>Not in use, but kept: a prompt with the same beginning starts from here.</source>
        <translation>未被使用但仍保留：开头相同的提示词从这里开始。</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ChatList</name>
    <message>
        <source>New chat (%1)</source>
        <translation>新建对话（%1）</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新对话</translation>
    </message>
    <message>
        <source>Find a chat</source>
        <translation>查找对话</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>重命名</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ChatModel</name>
    <message>
        <source>Answer: %1</source>
        <translation>回答：%1</translation>
    </message>
    <message>
        <source>You: %1</source>
        <translation>你：%1</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ChatPane</name>
    <message>
        <source>Send</source>
        <translation>发送</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>消息</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>停止</translation>
    </message>
    <message>
        <source>Open a model…</source>
        <translation>打开模型…</translation>
    </message>
    <message>
        <source>Ends the answer; what has been written stays (Esc)</source>
        <translation>结束回答；已写出的内容会保留（Esc）</translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter breaks the line</source>
        <translation>Enter 发送，Shift+Enter 换行</translation>
    </message>
    <message>
        <source>No model is loaded. Open a .gguf file, or drag one here.</source>
        <translation>尚未载入模型。请打开一个 .gguf 文件，或把它拖到这里。</translation>
    </message>
    <message>
        <source>The model is loading. You can write already.</source>
        <translation>模型正在载入，现在就可以写消息。</translation>
    </message>
    <message>
        <source>Ask %1 something.</source>
        <translation>向 %1 提问吧。</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ChatStore</name>
    <message>
        <source>New chat</source>
        <translation>新对话</translation>
    </message>
    <message>
        <source>%1, an answer is being written</source>
        <translation>%1，正在回答</translation>
    </message>
</context>
<context>
    <name>orrery::ui::ConversationView</name>
    <message>
        <source>Conversation</source>
        <translation>对话内容</translation>
    </message>
    <message>
        <source>To the end</source>
        <translation>跳到末尾</translation>
    </message>
</context>
<context>
    <name>orrery::ui::KnobRow</name>
    <message>
        <source>%1, slider</source>
        <translation>%1，滑块</translation>
    </message>
    <message>
        <source>Reset %1</source>
        <translation>重置%1</translation>
    </message>
    <message>
        <source>Put the default back</source>
        <translation>恢复默认值</translation>
    </message>
    <message>
        <source>No effect now. %1</source>
        <translation>目前不起作用。%1</translation>
    </message>
</context>
<context>
    <name>orrery::ui::KnobsPanel</name>
    <message>
        <source>Presets</source>
        <translation>预设</translation>
    </message>
    <message>
        <source>Settings of the sampler that go well together</source>
        <translation>搭配合理的采样设置</translation>
    </message>
    <message>
        <source>no limit</source>
        <translation>不限</translation>
    </message>
    <message>
        <source>Longest answer, tokens</source>
        <translation>回答最大长度（token）</translation>
    </message>
    <message>
        <source>The answer ends after so many tokens; 0 lets it go on until the context is full. In force from the next answer.</source>
        <translation>回答在达到这么多 token 后结束；0 表示一直写到上下文用完。从下一个回答起生效。</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>最大长度</translation>
    </message>
    <message>
        <source>fresh</source>
        <translation>随机</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>随机种子</translation>
    </message>
    <message>
        <source>Who should answer, and how?</source>
        <translation>由谁来回答，怎样回答？</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>系统提示词</translation>
    </message>
    <message>
        <source>Stands before the conversation. In force from the next answer.</source>
        <translation>位于对话之前。从下一个回答起生效。</translation>
    </message>
    <message>
        <source>The same seed gives the same answer; empty draws a fresh one for each answer.</source>
        <translation>相同的种子得到相同的回答；留空则每个回答都用新的种子。</translation>
    </message>
    <message>
        <source>No effect now. %1</source>
        <translation>目前不起作用。%1</translation>
    </message>
</context>
<context>
    <name>orrery::ui::LoadBar</name>
    <message>
        <source>Loading the model</source>
        <translation>正在载入模型</translation>
    </message>
    <message>
        <source>Stop loading</source>
        <translation>停止载入</translation>
    </message>
    <message>
        <source>Loading %1 …</source>
        <translation>正在载入 %1…</translation>
    </message>
    <message>
        <source>Loading %1 … %2 of %3</source>
        <translation>正在载入 %1… %2 / %3</translation>
    </message>
</context>
<context>
    <name>orrery::ui::MainWindow</name>
    <message>
        <source>Orrery</source>
        <translation>Orrery</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Knobs</source>
        <translation>采样参数</translation>
    </message>
    <message>
        <source>Engine</source>
        <translation>引擎</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>文件(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Open model…</source>
        <translation>打开模型(&amp;O)…</translation>
    </message>
    <message>
        <source>&amp;Recent models</source>
        <translation>最近的模型(&amp;R)</translation>
    </message>
    <message>
        <source>&amp;Unload model</source>
        <translation>卸载模型(&amp;U)</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>退出(&amp;Q)</translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation>对话(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;New chat</source>
        <translation>新建对话(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Find a chat</source>
        <translation>查找对话(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Answer again</source>
        <translation>重新回答(&amp;A)</translation>
    </message>
    <message>
        <source>&amp;Stop the answer</source>
        <translation>停止回答(&amp;S)</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>视图(&amp;V)</translation>
    </message>
    <message>
        <source>&amp;Theme</source>
        <translation>主题(&amp;T)</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>浅色</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>深色</translation>
    </message>
    <message>
        <source>&amp;Language</source>
        <translation>语言(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>帮助(&amp;H)</translation>
    </message>
    <message>
        <source>&amp;About Orrery</source>
        <translation>关于 Orrery(&amp;A)</translation>
    </message>
    <message>
        <source>None yet</source>
        <translation>暂无</translation>
    </message>
    <message>
        <source>Forget all</source>
        <translation>全部清除</translation>
    </message>
    <message>
        <source>%1 stays in use.</source>
        <translation>%1 继续使用。</translation>
    </message>
    <message>
        <source>Open a model</source>
        <translation>打开模型</translation>
    </message>
    <message>
        <source>Models (*.gguf)</source>
        <translation>模型 (*.gguf)</translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation>所有文件 (*)</translation>
    </message>
    <message>
        <source>About Orrery</source>
        <translation>关于 Orrery</translation>
    </message>
    <message>
        <source>A workbench for the inference of language models. Every number and every picture in it is measured in the step that has just run.

Free software under the GNU General Public License, version 3.</source>
        <translation>语言模型推理工作台。其中的每个数字、每幅图都来自引擎刚刚运行的一步的实测。

自由软件，依 GNU 通用公共许可证第 3 版发布。</translation>
    </message>
    <message>
        <source>The answer goes on with the settings that it had. %1</source>
        <translation>这个回答将沿用原来的设置继续。%1</translation>
    </message>
</context>
<context>
    <name>orrery::ui::MarkdownRenderer</name>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
</context>
<context>
    <name>orrery::ui::MessageView</name>
    <message>
        <source>Orrery</source>
        <translation>Orrery</translation>
    </message>
    <message>
        <source>You</source>
        <translation>你</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Copy message</source>
        <translation>复制消息</translation>
    </message>
    <message>
        <source>Answer again</source>
        <translation>重新回答</translation>
    </message>
    <message>
        <source>Reading the prompt: %1 of %2 tokens</source>
        <translation>正在读入提示词：%1 / %2 个 token</translation>
    </message>
    <message>
        <source>Waiting …</source>
        <translation>等待中…</translation>
    </message>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation>
            <numerusform>%n 个 token</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>orrery::ui::NoticeBar</name>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Close the message</source>
        <translation>关闭消息</translation>
    </message>
</context>
<context>
    <name>orrery::ui::Section</name>
    <message>
        <source>open</source>
        <translation>已展开</translation>
    </message>
    <message>
        <source>closed</source>
        <translation>已折叠</translation>
    </message>
</context>
<context>
    <name>orrery::ui::StatusLine</name>
    <message>
        <source>Tokens of this chat that the model has before it, of the most that it can have.</source>
        <translation>此对话中模型面前的 token 数，以及最多能有多少。</translation>
    </message>
    <message>
        <source>New tokens per second, all chats together, over the last second of work.</source>
        <translation>最近一秒工作中，所有对话每秒新生成的 token 数。</translation>
    </message>
    <message>
        <source>no model</source>
        <translation>未打开模型</translation>
    </message>
    <message numerus="yes">
        <source>%1, %n thread(s)</source>
        <translation>
            <numerusform>%1，%n 个线程</numerusform>
        </translation>
    </message>
    <message>
        <source>Device: %1</source>
        <translation>设备：%1</translation>
    </message>
    <message>
        <source>%1
%2 architecture, %3 of weights, vocabulary of %4 tokens</source>
        <translation>%1
%2 架构，权重 %3，词表 %4 个 token</translation>
    </message>
    <message>
        <source>context %1 of %2</source>
        <translation>上下文 %1 / %2</translation>
    </message>
</context>
<context>
    <name>orrery::ui::StepChart</name>
    <message>
        <source>Arrow keys read the columns, T shows the table, Space holds the picture.</source>
        <translation>方向键逐列查看，T 显示表格，空格键暂停画面。</translation>
    </message>
    <message>
        <source>Held</source>
        <translation>占用</translation>
    </message>
    <message>
        <source>step %1</source>
        <translation>第 %1 步</translation>
    </message>
    <message>
        <source>Go on</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>Hold</source>
        <translation>暂停</translation>
    </message>
    <message>
        <source>Show as picture</source>
        <translation>以图形显示</translation>
    </message>
    <message>
        <source>Show as table</source>
        <translation>以表格显示</translation>
    </message>
    <message>
        <source>Fewer steps</source>
        <translation>显示更少步</translation>
    </message>
    <message>
        <source>More steps</source>
        <translation>显示更多步</translation>
    </message>
    <message>
        <source>Save as PNG…</source>
        <translation>另存为 PNG…</translation>
    </message>
    <message>
        <source>Save as CSV…</source>
        <translation>另存为 CSV…</translation>
    </message>
    <message>
        <source>Save as PNG</source>
        <translation>另存为 PNG</translation>
    </message>
    <message>
        <source>PNG pictures (*.png)</source>
        <translation>PNG 图片 (*.png)</translation>
    </message>
    <message>
        <source>&apos;%1&apos; could not be written.</source>
        <translation>无法写入“%1”。</translation>
    </message>
    <message>
        <source>Save as CSV</source>
        <translation>另存为 CSV</translation>
    </message>
    <message>
        <source>Comma-separated values (*.csv)</source>
        <translation>逗号分隔值 (*.csv)</translation>
    </message>
    <message>
        <source>&apos;%1&apos; could not be written: %2.</source>
        <translation>无法写入“%1”：%2。</translation>
    </message>
</context>
<context>
    <name>orrery::ui::StepColumnsModel</name>
    <message>
        <source>Step</source>
        <translation>步</translation>
    </message>
    <message>
        <source>Peak, %1</source>
        <translation>峰值，%1</translation>
    </message>
</context>
</TS>
