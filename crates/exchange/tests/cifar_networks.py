"""The networks for CIFAR-10 whose weights are published, after their public code: those of
Cohen et al. and Salman et al., and RobustBench's WideResNet-28-10."""

from torch import nn
from torch.nn import functional as F


class CifarBlock(nn.Module):
    """Two convolutions; a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class CifarResNet(nn.Module):
    """The ResNet of Cohen et al. and Salman et al. for CIFAR-10."""

    def __init__(self, depth, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage, width in enumerate([16, 32, 64], 1):
            blocks = []
            for block in range((depth - 2) // 6):
                stride = 2 if stage > 1 and block == 0 else 1
                blocks.append(CifarBlock(inputs, width, stride))
                inputs = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.equal = inputs == outputs
        self.convShortcut = (
            None if self.equal else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        )

    def forward(self, x):
        y = F.relu(self.bn1(x))
        z = self.conv2(F.relu(self.bn2(self.conv1(y))))
        return z + (x if self.equal else self.convShortcut(y))


class WideStage(nn.Module):
    def __init__(self, count, inputs, outputs, stride):
        super().__init__()
        first = WideBlock(inputs, outputs, stride)
        rest = [WideBlock(outputs, outputs, 1) for _ in range(count - 1)]
        self.layer = nn.Sequential(first, *rest)

    def forward(self, x):
        return self.layer(x)


class WideResNet(nn.Module):
    """RobustBench's WideResNet-28-10."""

    def __init__(self, depth=28, width=10, classes=10):
        super().__init__()
        count, widths = (depth - 4) // 6, [16, 16 * width, 32 * width, 64 * width]
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.block1 = WideStage(count, widths[0], widths[1], 1)
        self.block2 = WideStage(count, widths[1], widths[2], 2)
        self.block3 = WideStage(count, widths[2], widths[3], 2)
        self.bn1 = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], classes)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))
